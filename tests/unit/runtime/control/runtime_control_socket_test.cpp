// Goal: VMART_CONTROL and VMART_TIMELINE do what the documents say: a socket for peers and the tool
// `vmart` that disappears with the runtime, and a trace that can be opened. Method: simulated
// machines with the scheduler's own thread; the tool as a child process.
#include "unit/control/control_peer.hpp"
#include "unit/memory/memory_rig.hpp"
#include "unit/runtime/runtime_rig.hpp"

#include "runtime/runtime_parts.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include <fmt/format.h>

#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

namespace vma {
namespace {

class RuntimeSocketTest : public testing::Test {
 protected:
  RuntimeSocketTest() {
    RuntimeOptions options;
    options.control = folder_.path("it.sock");
    options.timeline = folder_.path("trace.json");
    options.gate_limit = std::chrono::seconds(1);
    rig_ = std::make_unique<RuntimeRig>("test-2", options);
    for (int gpu = 0; gpu < rig_->gpus(); ++gpu) {
      attached_.emplace_back(rig_->runtime(), rig_->stream(gpu));
    }
  }
  Runtime& runtime() { return rig_->runtime(); }
  std::string path() const { return folder_.path("it.sock"); }
  void* tagged(const std::string& tag) {
    AllocOptions options;
    options.chunk_bytes = 8192;
    options.tag = tag;
    return runtime().alloc(3 * 8192, gpu(0), options);
  }
  void expect_tool(int code, const std::string& word, const std::string& arguments) {
    const std::string command =
        fmt::format("{} {} --socket {} 2>&1 </dev/null", VMART_TOOL, arguments, path());
    FILE* pipe = popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    std::string text;
    char bytes[4096];
    for (std::size_t count = 0; (count = fread(bytes, 1, sizeof bytes, pipe)) > 0;) {
      text.append(bytes, count);
    }
    const int status = pclose(pipe);
    EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, code) << arguments << "\n" << text;
    EXPECT_NE(text.find(word), std::string::npos) << arguments << "\n" << text;
  }

  TestFolder folder_;
  std::unique_ptr<RuntimeRig> rig_;
  std::vector<AttachedStream> attached_;
};

TEST_F(RuntimeSocketTest, ListensWithoutAPolicyAndThenMovesNothingByItself) {
  EXPECT_EQ(runtime().policy(), "stay_put");
  ControlPeer peer(path());
  ASSERT_TRUE(peer.connected());
  const auto answer = peer.ask(R"({"command":"status"})");
  EXPECT_EQ(answer.at("ok").at("policy").as_string(), "stay_put");
  EXPECT_EQ(answer.at("ok").at("description").as_string(), runtime().description());
}

TEST_F(RuntimeSocketTest, TheToolLooksAndMoves) {
  if (std::string(VMART_TOOL).empty()) GTEST_SKIP() << "the tool is not built: CLI11 is missing";
  void* pointer = tagged("weights");
  expect_tool(0, "weights", "where");
  expect_tool(0, "3 chunks", "migrate weights gpu1 --dry-run");
  EXPECT_EQ(rig_->place(pointer), gpu(0));
  expect_tool(0, "to gpu1 in ", "migrate weights gpu1");
  EXPECT_EQ(rig_->place(pointer), gpu(1));
  expect_tool(1, "no allocation has the tag", "migrate nothing gpu1");
  void* cold = tagged("cold");
  expect_tool(0, "to gpu1 in ", "migrate weights cold gpu1");
  EXPECT_EQ(rig_->place(cold), gpu(1));
  expect_tool(0, "to gpu0 in ", "migrate cold gpu0");
  expect_tool(0, "from gpu0 in ", "drain gpu0");
  EXPECT_NE(rig_->place(cold), gpu(0));
  expect_tool(0, "paused", "pause");
  expect_tool(0, "stepped", "step");
  expect_tool(0, "running", "resume");
  expect_tool(0, "counter", "policy --set counter");
  EXPECT_EQ(runtime().policy(), "counter");
  expect_tool(0, "bytes_moved", "stats");
  expect_tool(0, ": moved", fmt::format("explain {:#x}", to_integer(address_of(cold))));
  expect_tool(0, "operation_done", "events");
}

TEST_F(RuntimeSocketTest, TheToolMovesMemoryWithoutTags) {
  if (std::string(VMART_TOOL).empty()) GTEST_SKIP() << "the tool is not built: CLI11 is missing";
  const std::uint64_t *first = rig_->alloc(8192, gpu(0)), *large = rig_->alloc(65536, gpu(0)),
                      *last = rig_->alloc(16384, gpu(0));
  const void *all = tagged("all"), *layer = tagged("layer:3");
  const auto hex = [](const void* pointer) {
    return fmt::format("{:#x}", to_integer(address_of(pointer)));
  };
  expect_tool(0, "selected 1 allocation, 64.0 KiB: " + hex(large), "migrate largest:1 gpu1");
  EXPECT_EQ(rig_->place(large), gpu(1));
  EXPECT_EQ(rig_->place(last), gpu(0));
  expect_tool(0, hex(large), "where at:gpu1");
  expect_tool(0,
              "selected 2 allocations, 12.0 KiB: ", "migrate oldest:2 host0");  // One is the rig's.
  EXPECT_EQ(rig_->place(first), host(0));
  expect_tool(0, "selected 1 allocation, 16.0 KiB: " + hex(last), "migrate size:16KiB..20KiB gpu1");
  EXPECT_EQ(rig_->place(last), gpu(1));
  expect_tool(0, "selected 1 allocation", "migrate tag:all gpu1");
  EXPECT_EQ(rig_->place(all), gpu(1));
  EXPECT_EQ(rig_->place(layer), gpu(0));
  expect_tool(0, "selected 1 allocation", "migrate layer:3 host0");
  EXPECT_EQ(rig_->place(layer), host(0));
  expect_tool(0, "selected 6 allocations", "migrate all gpu0");
  for (const void* each : {all, layer, static_cast<const void*>(first)}) {
    EXPECT_EQ(rig_->place(each), gpu(0));
  }
  expect_tool(1, "\"at:gpu1\" selects nothing; there are 6 allocations, the largest of 64.0 KiB",
              "migrate at:gpu1 host0");
  expect_tool(0, "from gpu0 in ", "drain gpu0");
  expect_tool(0, hex(layer), "explain newest:1");
}

TEST_F(RuntimeSocketTest, HangsUpAndGoesWithTheRuntime) {
  ControlPeer idle(path()), asking(path());
  ASSERT_TRUE(idle.connected());
  tagged("weights");
  asking.ask(R"({"command":"migrate","tag":"weights","to":"gpu1"})");
  asking.ask(R"({"command":"drain","at":"gpu1"})");
  runtime().shutdown();
  EXPECT_TRUE(idle.hangs_up());
  EXPECT_TRUE(asking.hangs_up());
  EXPECT_FALSE(std::filesystem::exists(path()));
  EXPECT_TRUE(rig_->machine().leaks().empty());
}

TEST_F(RuntimeSocketTest, TheTraceShowsMovesStallsAndWhatDecidedThem) {
  runtime().set_policy("counter");
  void* pointer = tagged("weights");
  const Use use{pointer, 8192, gpu(1), UseKind::read, 1e9F};
  EXPECT_TRUE(comes_true([&] {
    // Repeatedly: a policy that overruns on a slow machine loses its plan.
    runtime().record_uses(std::span(&use, 1));
    return runtime().where(pointer).front().at == gpu(1);
  }));
  runtime().migrate_async(pointer, host(0)).wait();
  runtime().shutdown();
  std::ifstream file(folder_.path("trace.json"));
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  std::size_t moves = 0, stalls = 0, decided = 0;
  const boost::json::value trace = boost::json::parse(text);
  for (const auto& value : trace.as_array()) {
    const auto& entry = value.as_object();
    if (entry.at("ph").as_string() != "X") continue;
    const auto category = entry.at("cat").as_string();
    stalls += category == "stall" ? 1 : 0;
    if (category != "move") continue;
    ++moves;
    decided += entry.at("args").at("decision").to_number<std::uint64_t>() > 0 ? 1 : 0;
  }
  EXPECT_EQ(moves, 4u);
  EXPECT_GE(stalls, 2u) << "one for the policy's move, one for the chunks that the program moves";
  EXPECT_LE(stalls, moves);
  EXPECT_EQ(decided, 1u);
}

}  // namespace
}  // namespace vma
