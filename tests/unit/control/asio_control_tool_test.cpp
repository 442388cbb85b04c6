// Goal: each `vmart` subcommand that asks a running program prints the answer and exits with 0;
// with 1 and the reason if the program refuses; with 2 for wrong usage. Method: runs the tool
// against the server of a fake runtime.
#include "unit/control/asio_control_tool_test.hpp"

#include "control/own_folder.hpp"
#include "control/prometheus.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include <pty.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

namespace vma {

Ran run_tool(const std::string& arguments) {
  const std::string command =
      fmt::format("timeout 60 {} {} 2>&1 </dev/null", VMART_TOOL, arguments);
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

namespace {

TEST_F(ControlToolTest, ShowsARunningProgram) {
  expect(0, "simulated h200x2", "status");
  expect(0, "25.0 MiB", "status");
  expect(0, "by the program itself: 3.0 MiB of vmart, 5.0 MiB of the driver", "status");
  expect(0, "a \"tag\"?", "where");  // An unescaped line end in the tag could forge a line.
  expect(0, "not movable parked dropped 96.0 MiB", "where");
  expect(0, "2.0 MiB  dropped", "where 0x7f0000000000");
  expect(0, "0x7f0000200000", "where 0x7f0000000000");
  expect(0, "0x7f1095e00000", "where 0x7f1000000000");  // On the last of several pages.
  expect(0, "gpu1 uses it 4.1 GB/s", "explain 0x7f0000000000");
  expect(0, "chunk 0 of 0x7f0000000000: 2.0 MiB at host0", "explain 0x7f0000000000");
  expect(0, "2.8 GiB", "stats");
  expect(0, "count 4, median 1.00 ms, p99 2.00 ms, max 3.00 ms", "stats");
  expect(0, "0.062", "stats");  // The prediction_error.
  expect(0, "\"bytes_moved\": 3000000000", "stats --json");
  expect(0, "0.000042,", "stats --json");  // The skew of 42 us, without an exponent.
  expect(0, "simulated h200x2", "top");
}

TEST_F(ControlToolTest, TheDemoMovesNoMoreThanItSays) {
  const Ran ran = run_tool("demo --driver sim:h200x2 --mib 12 --json");
  EXPECT_EQ(ran.code, 0) << ran.text;
  const auto members = boost::json::parse(ran.text).as_object();
  const auto& after = members.at("after").as_array();
  ASSERT_EQ(after.size(), 3u) << ran.text;
  EXPECT_EQ(after[1].at("offset_bytes").to_number<int>(), 2 << 20);
  EXPECT_EQ(after[1].at("bytes").to_number<int>(), 4 << 20);
}

TEST_F(ControlToolTest, TakesTagsWhereItTakesAddresses) {
  expect(0, "0x7f1095e00000", "where many");  // On the last of several pages.
  expect(0, "\"many\"", "where many");
  expect(1, "no allocation has the tag \"none\"", "where none");
  expect(0, "gpu1 uses it 4.1 GB/s", "explain many");
  expect(0, "0x7f1000000000", "explain many");
  expect(1, "no allocation has the tag \"7b\"", "explain 7b");  // Not an address.
  expect(0, "to gpu1 in 0 s", "migrate 7b gpu1");
  EXPECT_EQ(rig_.target().calls(), std::vector<std::string>{"move 7b to gpu(1)"});
}

TEST_F(ControlToolTest, TakesSelectorsWhereItTakesTags) {
  expect(0, "\"many\"", "where largest:1");
  expect(0, "\"many\"", "where oldest:1");
  expect(0, "0x7f0000200000", "where at:gpu0");  // With extents.
  expect(0, "0x7f0000000000", "explain newest:1");
  expect(1, "\"size:4GiB..\" selects nothing; there are 2 allocations, the largest of 2.4 GiB",
         "where size:4GiB..");
  expect(1, "no allocation has the tag \"at:mars\", which is no selector either", "where at:mars");
  expect(0,
         "selected 12 allocations, 48.0 MiB: 0x7f0000000000 0x7f0000400000 0x7f0000800000 "
         "0x7f0000c00000 0x7f0001000000 0x7f0001400000 0x7f0001800000 0x7f0001c00000 and 4 more\n",
         "migrate largest:12 at:gpu0 layer:3 gpu1");
  expect(0, "selected 12 allocations", "migrate 'at:gpu(0)' gpu1 --dry-run");
  expect(0, "\"selected\": {\"count\": 12, \"bytes\": 50331648, \"first\": [{\"address\": ",
         "migrate all host0 --json");
  expect(0, "to gpu1 in 0 s", "migrate tag:all gpu1");
  EXPECT_EQ(rig_.target().calls(),
            (std::vector<std::string>{"move largest:12 at:gpu0 layer:3 to gpu(1)",
                                      "move all to host(0)", "move tag:all to gpu(1)"}));
  for (const char* command : {"where", "explain", "migrate"}) {
    expect(0, "size:MIN..MAX", fmt::format("{} --help", command));
  }
}

TEST_F(ControlToolTest, AnswersInJson) {
  for (const char* command :
       {"status", "where", "where many", "where 0x7f0000000000", "explain many", "stats", "events",
        "top", "policy", "policy --set stay", "policy cost_benefit", "pause", "step", "resume",
        "drain gpu0", "migrate many gpu1", "migrate many gpu1 --dry-run"}) {
    SCOPED_TRACE(command);
    const Ran ran = run_tool(fmt::format("{} --json --socket {}", command, rig_.path()));
    EXPECT_EQ(ran.code, 0) << ran.text;
    EXPECT_EQ(ran.text.find('\n'), ran.text.size() - 1) << ran.text;
    boost::system::error_code failed;
    const boost::json::value value = boost::json::parse(ran.text, failed);
    EXPECT_FALSE(failed) << ran.text;
    EXPECT_TRUE(value.is_object()) << ran.text;
  }
  expect(1, "no room at gpu1", "migrate fails gpu1 --json");
}

TEST_F(ControlToolTest, ShowsWhatTheGpusDo) {
  for (const char* command : {"top", "stats"}) {
    SCOPED_TRACE(command);
    rig_.target().start_loads(3);  // As after a time without readers.
    expect(0, "50 %     25 %     30.0 MiB      1.9 GiB            -            -    976.6 KiB",
           command);
  }
  expect(0, "\"reason\": \"a ? reason\", \"age_s\": 0.25", "stats --json");
  expect(0, "\"pcie_received_bytes_s\": 1000000", "stats --json");
}

TEST_F(ControlToolTest, PrintsThePageForPrometheusAsItIs) {
  const Ran ran = run_tool("stats --prometheus --socket " + rig_.path());
  EXPECT_EQ(ran.text, prometheus_text(rig_.target().stats()));
}

TEST_F(ControlToolTest, Acts) {
  expect(0, "20.00 ms", "migrate weights gpu1 --dry-run");
  EXPECT_TRUE(rig_.target().calls().empty());
  expect(0, "to gpu1 in 0 s", "migrate weights gpu1");
  expect(0, "to host0 in 0 s", "migrate 0x7f0000000000 host0");
  expect(0, "to gpu1 in 0 s", "migrate weights 0x10 cache gpu1");
  expect(1, "no room at gpu1", "migrate fails gpu1");
  expect(0, "drain gpu0", "drain gpu0");
  expect(0, "capacity gpu0 4096", "capacity gpu0 4KiB");
  expect(0, "cost_benefit", "policy");
  expect(0, "cost_benefit", "policy --set cost_benefit");
  expect(0, "paused", "pause");
  expect(0, "stepped", "step");
  expect(0, "running", "resume");
  expect(0, "operation_failed", "events");
  EXPECT_EQ(rig_.target().calls(),
            (std::vector<std::string>{"move weights to gpu(1)", "move 0x7f0000000000 to host(0)",
                                      "move weights 0x10 cache to gpu(1)", "move fails to gpu(1)",
                                      "drain gpu(0)", "capacity gpu(0) 4096", "pause", "step",
                                      "resume"}));
}

TEST_F(ControlToolTest, LeavesWithOneAndTheReasonWhereItIsRefused) {
  expect(1, "known: stay cost_benefit", "policy --set magic");
  expect(1, "the scheduler is running", "step");
  expect(1, "unknown_pointer", "where 0x10");
  expect(2, "\"mars\" is not a place; write gpu0", "drain mars");
  expect(2, "\"much\" is no size", "capacity gpu0 much");
  expect(2, "20 has no unit", "capacity gpu0 20");
  EXPECT_EQ(run_tool("status --socket " + rig_.path() + ".none").code, 1);
}

TEST_F(ControlToolTest, TrustsNoSocketThatMayBeSomebodyElses) {
  const std::string folder = std::filesystem::path(rig_.path()).parent_path();
  ASSERT_EQ(chmod(folder.c_str(), 0777), 0);
  expect(1, "is not trusted: its folder", "status");
  ASSERT_EQ(chmod(folder.c_str(), 01777), 0);  // Like /tmp: others cannot remove our socket.
  expect(0, "simulated", "status");
  ASSERT_EQ(chmod(folder.c_str(), 0700), 0);
  ASSERT_EQ(chmod(rig_.path().c_str(), 0666), 0);
  expect(1, "is not trusted: it belongs to user", "status");
  ASSERT_EQ(chmod(rig_.path().c_str(), 0600), 0);
  if (geteuid() != 0) return;
  constexpr uid_t nobody = 65'534;
  ASSERT_EQ(chown(rig_.path().c_str(), nobody, nobody), 0);
  expect(1, "belongs to user 65534", "status");
  ASSERT_EQ(chown(rig_.path().c_str(), 0, 0), 0);
  ASSERT_EQ(chown(folder.c_str(), nobody, nobody), 0);
  expect(1, "is not trusted: its folder", "status");
  ASSERT_EQ(chown(folder.c_str(), 0, 0), 0);
}

TEST_F(ControlToolTest, SaysThatTooManyClientsWait) {
  const std::string path = rig_.folder() + "/full.sock";
  const int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(listening, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  ASSERT_EQ(listen(listening, 0), 0);
  const ControlPeer waits(path);  // The queue has room for one.
  ASSERT_TRUE(waits.connected());
  const Ran ran = run_tool("status --socket " + path);
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.text.find("too many clients wait"), std::string::npos) << ran.text;
  close(listening);
}

TEST_F(ControlToolTest, PrintsNoControlCharactersOfArguments) {
  for (const char* arguments :
       {"status --socket \"$(printf '/tmp/\\033[31mred')\"", "\"$(printf '\\033[31mred')\"",
        "status \"$(printf -- '--\\033[31mred')\"", "where --driver \"$(printf '\\033]0;red')\""}) {
    const Ran ran = run_tool(arguments);
    EXPECT_NE(ran.code, 0) << arguments;
    EXPECT_EQ(ran.text.find('\x1b'), std::string::npos) << ran.text;
  }
}

/// Runs `vmart top` in a pseudo terminal.
class TopInTerminal {
 public:
  TopInTerminal(const std::string& socket, unsigned short columns, unsigned short rows,
                bool no_colour = false) {
    winsize size{};
    size.ws_col = columns;
    size.ws_row = rows;
    child_ = forkpty(&terminal_, nullptr, nullptr, &size);
    if (child_ != 0) return;
    setenv("TERM", "xterm", 1);
    no_colour ? setenv("NO_COLOR", "1", 1) : unsetenv("NO_COLOR");
    execl(VMART_TOOL, VMART_TOOL, "top", "--interval", "0.1", "--socket", socket.c_str(), nullptr);
    _exit(127);
  }
  ~TopInTerminal() { close(terminal_); }

  /// Returns all output up to the `most`-th occurrence of `word`, which appears once per screen.
  std::string pictures(int most, const std::string& word) {
    std::string shown;
    char bytes[4096];
    const auto count = [&] {
      int found = 0;
      for (std::size_t at = 0; (at = shown.find(word, at)) != std::string::npos; ++at) ++found;
      return found;
    };
    while (count() < most) {
      const ssize_t got = read(terminal_, bytes, sizeof bytes);
      if (got <= 0) break;
      shown.append(bytes, static_cast<std::size_t>(got));
    }
    EXPECT_GE(count(), most) << shown;
    return shown;
  }
  void press(char key) { EXPECT_EQ(write(terminal_, &key, 1), 1); }
  int leave() {
    press('q');
    char bytes[4096];
    while (read(terminal_, bytes, sizeof bytes) > 0) continue;  // Reads until the tool exits.
    int status = 0;
    EXPECT_EQ(waitpid(child_, &status, 0), child_);
    return status;
  }

 private:
  int terminal_ = -1;
  pid_t child_ = -1;
};

/// The lines of the last screen, without control sequences.
std::vector<std::string> lines_of_last_picture(const std::string& shown) {
  std::vector<std::string> lines{""};
  for (std::size_t i = shown.rfind("\x1b[H"); i < shown.size(); ++i) {
    if (shown[i] == '\x1b') {
      while (i < shown.size() && std::isalpha(static_cast<unsigned char>(shown[i])) == 0) ++i;
    } else if (shown[i] == '\n') {
      lines.emplace_back();
    } else if (shown[i] != '\r') {
      lines.back() += shown[i];
    }
  }
  return lines;
}

TEST_F(ControlToolTest, DrawsTopAgainAndAgainUntilAKey) {
  TopInTerminal top(rig_.path(), 0, 0);  // A terminal that does not report its size.
  top.pictures(3, "q: quit");
  top.press('h');
  EXPECT_NE(top.pictures(1, "Any key goes back").find("Keys"), std::string::npos);
  top.press('x');
  top.pictures(1, "simulated h200x2");
  EXPECT_EQ(top.leave(), 0);
}

TEST_F(ControlToolTest, TopFitsTheTerminal) {
  for (int i = 0; i < 50; ++i) rig_.target().ring().add({});
  for (const auto& [columns, rows] :
       {std::pair<unsigned short, unsigned short>{80, 24}, {60, 15}, {30, 8}, {12, 4}, {1, 1}}) {
    SCOPED_TRACE(fmt::format("{} x {}", columns, rows));
    TopInTerminal top(rig_.path(), columns, rows);
    // Marks the end of a screen, so that the screen before it is complete.
    std::string shown = top.pictures(2, "\x1b[J");
    EXPECT_EQ(top.leave(), 0);
    const std::vector<std::string> lines =
        lines_of_last_picture(shown.substr(0, shown.rfind("\x1b[J")));
    EXPECT_LE(lines.size(), rows);
    for (const std::string& line : lines) EXPECT_LE(line.size(), columns) << line;
    if (rows >= 15) {
      EXPECT_EQ(lines.size(), rows) << "events take what is left";
    }
    if (columns >= 60) {
      EXPECT_NE(shown.find("demand/s"), std::string::npos);
    }
  }
}

TEST_F(ControlToolTest, TopSortsByTheKeyThatIsAskedFor) {
  TopInTerminal top(rig_.path(), 80, 24);
  top.pictures(1, "sort by place");
  for (const char* key : {"used", "share", "demand", "place"}) {
    top.press('s');
    top.pictures(1, fmt::format("sort by {}", key));
  }
  EXPECT_EQ(top.leave(), 0);
  expect(0, "gpu0", "top --sort used");
  EXPECT_NE(run_tool("top --json --socket " + rig_.path()).text.find("gpu(0)"), std::string::npos);
}

TEST_F(ControlToolTest, TopHasColourUnlessItIsNotWanted) {
  TopInTerminal with(rig_.path(), 80, 24);
  EXPECT_NE(with.pictures(1, "\x1b[J").find("\x1b[1m"), std::string::npos);
  EXPECT_EQ(with.leave(), 0);
  TopInTerminal without(rig_.path(), 80, 24, true);
  EXPECT_EQ(without.pictures(1, "\x1b[J").find("\x1b[1m"), std::string::npos);
  EXPECT_EQ(without.leave(), 0);
  EXPECT_EQ(run_tool("top --socket " + rig_.path()).text.find('\x1b'), std::string::npos);
}

TEST_F(ControlToolTest, LeavesWithTwoForWrongUsage) {
  expect(2, "WHAT is missing", "explain");
  expect(2, "--pid", "status --pid 1");
  expect(2, "--json", "stats --json --prometheus");
  expect(2, "--mib", "where 0x10 --mib 64");
  expect(2, "vmart policy --set stay:a=1", "policy stay:a=1");
  expect(2, "--set", "policy stay --set stay");
  expect(2, "--sort", "top --sort colour");
  EXPECT_EQ(run_tool("status --pid -3").code, 2);
}

TEST_F(ControlToolTest, FindsTheOnlyRuntimeByItself) {
  TestFolder folder;
  const Set variable("XDG_RUNTIME_DIR", folder.path());
  const std::string here = own_folder(), own = std::to_string(getpid());
  const Ran silent = run_tool(fmt::format("status --pid {}", getppid()));
  EXPECT_EQ(silent.code, 1);
  EXPECT_NE(silent.text.find(fmt::format("process {} (", getppid())), std::string::npos)
      << silent.text;
  EXPECT_NE(silent.text.find("does not listen"), std::string::npos) << silent.text;
  // The kernel says which process listens, whatever the name says.
  std::filesystem::create_symlink(rig_.path(), here + "/99999999.sock");
  std::filesystem::create_symlink(rig_.path() + ".none", here + "/99999998.sock");
  std::filesystem::create_symlink(rig_.path(), here + "/99999997.sock");
  const Ran by_pid = run_tool("status --pid " + own);
  EXPECT_EQ(by_pid.code, 0) << by_pid.text;
  const Ran by_name = run_tool("status --pid 99999999");
  EXPECT_EQ(by_name.code, 1);
  EXPECT_NE(by_name.text.find("there is no process 99999999"), std::string::npos) << by_name.text;
  EXPECT_NE(by_name.text.find("these listen: "), std::string::npos) << by_name.text;
  EXPECT_NE(by_name.text.find(own + " (control_test"), std::string::npos) << by_name.text;
}

}  // namespace
}  // namespace vma
