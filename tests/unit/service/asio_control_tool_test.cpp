// Goal: each subcommand of `vmart` that asks a running program prints what it answers and leaves
// with 0, with 1 and the reason where it refuses, with 2 for wrong usage. Method: the tool itself
// against the server of a fake runtime.
#include "unit/service/asio_control_rig.hpp"

#include "service/prometheus.hpp"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace vma {
namespace {

struct Ran {
  int code = -1;
  std::string text;
};

/// Standard output and error together.
Ran run_tool(const std::string& arguments) {
  const std::string command = fmt::format("{} {} 2>&1 </dev/null", VMART_TOOL, arguments);
  Ran ran;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return ran;
  char bytes[4096];
  for (std::size_t count = 0; (count = fread(bytes, 1, sizeof bytes, pipe)) > 0;) {
    ran.text.append(bytes, count);
  }
  const int status = pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

class ControlToolTest : public testing::Test {
 protected:
  ControlToolTest() {
    if (std::string(VMART_TOOL).empty()) skip_ = true;
  }
  void SetUp() override {
    if (skip_) GTEST_SKIP() << "the tool is not built: CLI11 is missing";
  }
  void expect(int code, const std::string& word, const std::string& arguments) {
    const Ran ran = run_tool(fmt::format("{} --socket {}", arguments, rig_.path()));
    EXPECT_EQ(ran.code, code) << arguments << "\n" << ran.text;
    EXPECT_NE(ran.text.find(word), std::string::npos) << arguments << "\n" << ran.text;
  }
  ControlRig rig_;
  bool skip_ = false;
};

TEST_F(ControlToolTest, ShowsARunningProgram) {
  expect(0, "simulated h200x2", "status");
  expect(0, "25.0 MiB", "status");
  expect(0, "a \"tag\"?", "where");  // The tag's line end could forge a line.
  expect(0, "not movable parked dropped 96.0 MiB", "where");
  expect(0, "2.0 MiB  dropped", "where 0x7f0000000000");
  expect(0, "0x7f0000200000", "where 0x7f0000000000");
  expect(0, "0x7f1095e00000", "where 0x7f1000000000");  // The last of several pages.
  expect(0, "gpu(1) uses it 4.1 GB/s", "explain 0x7f0000000000");
  expect(0, "bytes_moved", "stats");
  expect(0, "\"bytes_moved\":3000000000", "stats --json");
  expect(0, "simulated h200x2", "top");
}

TEST_F(ControlToolTest, ShowsWhatTheGpusDo) {
  for (const char* command : {"top", "stats"}) {
    SCOPED_TRACE(command);
    rig_.target().start_loads(3);  // Nobody looked for a while.
    expect(0, "50 %     25 %     30.0 MiB      1.9 GiB            -            -    976.6 KiB",
           command);
  }
  expect(0, "\"reason\":\"a ? reason\",\"age_s\":2.5E-1", "stats --json");
  expect(0, "\"pcie_received_bytes_s\":1E6", "stats --json");
}

TEST_F(ControlToolTest, PrintsThePageForPrometheusAsItIs) {
  const Ran ran = run_tool("stats --prometheus --socket " + rig_.path());
  EXPECT_EQ(ran.text, prometheus_text(rig_.target().stats()));
}

TEST_F(ControlToolTest, Acts) {
  expect(0, "20.00 ms", "migrate weights gpu1 --dry-run");
  EXPECT_TRUE(rig_.target().calls().empty());
  expect(0, "operation_done", "migrate weights gpu1");
  expect(0, "operation_done", "migrate 0x7f0000000000 host0");
  expect(1, "no room at gpu(1)", "migrate fails gpu1");
  expect(0, "drain gpu(0)", "drain gpu0");
  expect(0, "cost_benefit", "policy");
  expect(0, "cost_benefit", "policy cost_benefit");
  expect(0, "paused", "pause");
  expect(0, "stepped", "step");
  expect(0, "running", "resume");
  expect(0, "operation_failed", "events");
  EXPECT_EQ(rig_.target().calls(),
            (std::vector<std::string>{"move weights to gpu(1)", "move 0x7f0000000000 to host(0)",
                                      "move fails to gpu(1)", "drain gpu(0)", "pause", "step",
                                      "resume"}));
}

TEST_F(ControlToolTest, LeavesWithOneAndTheReasonWhereItIsRefused) {
  expect(1, "known: stay cost_benefit", "policy magic");
  expect(1, "the scheduler runs", "step");
  expect(1, "unknown_pointer", "where 0x10");
  expect(1, "mars", "drain mars");
  EXPECT_EQ(run_tool("status --socket " + rig_.path() + ".none").code, 1);
}

TEST_F(ControlToolTest, DrawsTopAgainAndAgainUntilAKey) {
  int terminal = -1;
  const std::string path = rig_.path();
  const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child == 0) {
    execl(VMART_TOOL, VMART_TOOL, "top", "--interval", "0.1", "--socket", path.c_str(), nullptr);
    _exit(127);
  }
  std::string shown;
  const auto pictures = [&] {
    std::size_t count = 0, at = 0;
    while ((at = shown.find("(q leaves)", at)) != std::string::npos) ++count, ++at;
    return count;
  };
  char bytes[4096];
  for (ssize_t count = 0; pictures() < 3 && (count = read(terminal, bytes, sizeof bytes)) > 0;) {
    shown.append(bytes, static_cast<std::size_t>(count));
  }
  EXPECT_EQ(pictures(), 3U) << shown;
  EXPECT_EQ(write(terminal, "q", 1), 1);
  while (read(terminal, bytes, sizeof bytes) > 0) continue;  // Until it has left.
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  close(terminal);
}

TEST_F(ControlToolTest, LeavesWithTwoForWrongUsage) {
  expect(2, "address", "explain");
  expect(2, "--pid", "status --pid 1");
  expect(2, "--json", "stats --json --prometheus");
  expect(2, "demonstration", "where 0x10 --mib 64");
  EXPECT_EQ(run_tool("status --pid -3").code, 2);
}

TEST_F(ControlToolTest, FindsTheOnlyRuntimeByItself) {
  TestFolder folder;
  setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  EXPECT_NE(run_tool("status --pid 99999999").text.find("no runtime listens"), std::string::npos);
  const std::string found = fmt::format("{}/vmart-{}.sock", folder.path(), 99'999'999);
  std::filesystem::create_symlink(rig_.path(), found);
  std::filesystem::create_symlink(rig_.path() + ".none", folder.path("vmart-99999998.sock"));
  const Ran by_pid = run_tool("status --pid 99999999");
  EXPECT_EQ(by_pid.code, 0) << by_pid.text;
  std::filesystem::create_symlink(rig_.path(), folder.path("vmart-99999997.sock"));
  const Ran several = run_tool("status");
  EXPECT_EQ(several.code, 1);
  EXPECT_NE(several.text.find("choose one by --pid"), std::string::npos) << several.text;
  unsetenv("XDG_RUNTIME_DIR");
}

}  // namespace
}  // namespace vma
