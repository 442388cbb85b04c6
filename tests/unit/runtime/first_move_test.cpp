// Goal: the first move that suspends creates one context of its own for each GPU that the program
// uses, and no later one does. Moves that wait are nearly as quick the first time as later and take
// no contexts, wherever the program has one; where it has none, all work nevertheless. Method: a
// simulated machine on which a context takes its real time and memory, and a program with contexts
// on some GPUs.
#include "runtime/runtime_parts.hpp"
#include "runtime/settings.hpp"
#include "support/drivers/fault_driver.hpp"
#include "support/drivers/trace_driver.hpp"
#include "support/plays.hpp"
#include "support/test_machines.hpp"
#include "machine/machine_file.hpp"
#include "migrate/stops/copy_scopes.hpp"
#include "unit/memory/memory_rig.hpp"
#include "unit/runtime/runtime_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;

class Program {
 public:
  explicit Program(const std::vector<int>& gpus, RuntimeOptions options = {})
      : machine_(load_machine("h200x2")), gpus_(gpus) {
    for (const int gpu : gpus) {
      const ContextHandle context = machine_.retain_primary(DeviceId{gpu});
      streams_.push_back(machine_.create_stream(context, StreamKind::non_blocking));
    }
    auto faults = std::make_unique<FaultDriver>(static_cast<Driver&>(machine_));
    faults_ = faults.get();
    auto trace = std::make_unique<TraceDriver>(std::move(faults), std::size_t{1} << 14);
    trace_ = trace.get();
    options.driver = "sim:h200x2";
    runtime_ = unique_runtime_of(
        std::make_unique<RuntimeParts>(std::move(trace), resolve_settings(options)));
  }
  ~Program() {
    runtime_.reset();
    for (const BoundStream stream : streams_) machine_.destroy_stream(stream);
    for (const int gpu : gpus_) machine_.release_primary(DeviceId{gpu});
    EXPECT_EQ(machine_.leaks(), std::vector<std::string>{});
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Runtime& runtime() { return *runtime_; }
  FaultDriver& faults() { return *faults_; }
  Stream stream(std::size_t i) const {
    return reinterpret_cast<Stream>(static_cast<std::uintptr_t>(streams_.at(i).handle));
  }
  int calls(Call call) const {
    const auto calls = trace_->calls();
    return static_cast<int>(std::ranges::count(calls, call, &TracedCall::call));
  }
  void* filled(std::uint64_t bytes, Place at) {
    void* const pointer = runtime().alloc(bytes, at);
    words_.resize(bytes / 8);
    std::iota(words_.begin(), words_.end(), 11);
    runtime().write(pointer, std::as_bytes(std::span(words_)));
    return pointer;
  }
  bool whole(const void* pointer) {
    std::vector<std::uint64_t> found(words_.size());
    runtime().read(pointer, std::as_writable_bytes(std::span(found)));
    return found == words_;
  }
  template <typename Body>
  TimePoint time(Body&& body) {
    const TimePoint start = machine_.clock().now();
    body();
    return machine_.clock().now() - start;
  }

 private:
  SimDriver machine_;
  const std::vector<int> gpus_;
  std::vector<BoundStream> streams_;
  FaultDriver* faults_ = nullptr;  // Owned by the runtime, as is the trace.
  TraceDriver* trace_ = nullptr;
  std::unique_ptr<Runtime> runtime_;
  std::vector<std::uint64_t> words_;
};

constexpr std::uint64_t size_bytes = 32 << 20;
constexpr milliseconds bar(15);

TEST(FirstMove, TakesAContextForEachGpuThatTheProgramUsesAndNoLaterOneDoes) {
  RuntimeOptions options;
  options.prepare = false;
  for (const std::vector<int>& gpus : {std::vector<int>{0}, std::vector<int>{0, 1}}) {
    Program program(gpus, options);
    const int contexts = static_cast<int>(gpus.size());
    void* const memory = program.filled(size_bytes, gpu(0));
    EXPECT_EQ(program.calls(Call::create_own_context), 0) << "nothing has moved yet";
    const TimePoint first = program.time([&] { program.runtime().migrate(memory, host(0)); });
    EXPECT_LT(first, contexts * milliseconds(300)) << "200 ms create a context";
    EXPECT_EQ(program.calls(Call::create_own_context), contexts);
    // It may wait for a host chunk that is made ahead, which takes about 10 ms.
    const TimePoint later = program.time([&] { program.runtime().migrate(memory, gpu(0)); });
    EXPECT_LT(later, milliseconds(100)) << "no context is created";
    EXPECT_EQ(program.calls(Call::create_own_context), contexts);
    EXPECT_TRUE(program.whole(memory));
  }
}

TEST(FirstMove, ThatHoldsIsQuickAndTakesNoContext) {
  Program program({0, 1}, without_suspension());
  void* const memory = program.filled(size_bytes, gpu(0));
  for (const Place to : {gpu(1), gpu(0)}) {
    EXPECT_LT(program.time([&] { program.runtime().migrate(memory, to); }), bar);
  }
  for (const Place to : {host(0), gpu(0)}) program.runtime().migrate(memory, to);
  EXPECT_TRUE(program.whole(memory));
  EXPECT_EQ(program.calls(Call::create_own_context), 0);
}

// What is prepared takes memory that the scheduler has counted as free.
TEST(FirstMove, ThatIsPreparedLeavesLessRoomForWhatThePolicyPlaces) {
  RuntimeOptions options;
  options.policy = "cost_benefit";
  options.capacity_bytes[gpu(0)] = 2 * size_bytes;
  Program program({0}, options);
  Runtime& runtime = program.runtime();
  const auto own_bytes = [&] { return runtime.stats().places.front().own_bytes; };
  const std::uint64_t before = own_bytes();
  const AttachedStream attached(runtime, program.stream(0));
  AllocOptions fixed;
  fixed.movable = false;  // So that nothing makes room.
  void* const small = runtime.alloc(2 << 20, gpu(0), fixed);
  while (own_bytes() == before) std::this_thread::yield();
  AllocOptions in_small_chunks;
  in_small_chunks.chunk_bytes = 2 << 20;
  void* const large = runtime.alloc(3 * size_bytes, in_small_chunks);
  EXPECT_EQ(runtime.where(large).size(), 2u) << "the rest went elsewhere";
  runtime.free(large);
  runtime.free(small);
}

TEST(FirstMove, ThatIsLiveAtGatesIsQuickAndTakesNoContext) {
  Program program({0, 1}, without_suspension());
  void* const memory = program.filled(size_bytes, gpu(0));
  const AttachedStream attached(program.runtime(), program.stream(0));
  MigrateOptions options;
  options.mode = Mode::live;
  EXPECT_LT(program.time([&] { program.runtime().migrate_async(memory, gpu(1), options).wait(); }),
            bar);
  EXPECT_TRUE(program.whole(memory));
  EXPECT_EQ(program.calls(Call::create_own_context), 0);
}

class FirstMoveWith : public testing::TestWithParam<std::vector<int>> {};
INSTANTIATE_TEST_SUITE_P(ContextsOn, FirstMoveWith,
                         testing::Values(std::vector<int>{}, std::vector<int>{0},
                                         std::vector<int>{1}, std::vector<int>{0, 1}));

TEST_P(FirstMoveWith, WorksInAllDirections) {
  for (const auto& [own_contexts, suspends] :
       {std::pair{false, false}, std::pair{true, false}, std::pair{false, true}}) {
    RuntimeOptions options;
    options.own_contexts = own_contexts;
    options.suspend = suspends;
    Program program(GetParam(), options);
    void* const memory = program.filled(size_bytes, gpu(0));
    for (const Place to : {gpu(1), host(0), gpu(1), gpu(0), host(0), gpu(0)}) {
      EXPECT_EQ(program.runtime().migrate(memory, to).outcome, Outcome::done) << to_string(to);
      EXPECT_TRUE(program.whole(memory)) << to_string(to);
    }
    const bool everywhere = !own_contexts && !suspends && GetParam().size() == 2;
    EXPECT_LE(program.calls(Call::create_own_context), everywhere ? 0 : 2) << "one a GPU";
  }
}

TEST(FirstMove, ThatHoldsBackToAGpuWithAContextTakesNone) {
  Program program({0}, without_suspension());
  void* const memory = program.filled(size_bytes, gpu(0));
  program.runtime().migrate(memory, gpu(1));
  EXPECT_LT(program.time([&] { program.runtime().migrate(memory, gpu(0)); }), bar);
  EXPECT_TRUE(program.whole(memory));
  EXPECT_EQ(program.calls(Call::create_own_context), 0);
}

TEST(FirstMove, SaysWhatToDoIfItNeedsAContextThatHasNoRoom) {
  Program program({});
  void* const memory = program.runtime().alloc(size_bytes, gpu(0));
  std::set<int> all;
  for (int number = 0; number < 100; ++number) all.insert(number);
  program.faults().count_only({Call::create_own_context});
  program.faults().fail_calls(all);
  const Error error =
      expect_error(ErrorKind::out_of_memory, [&] { program.runtime().migrate(memory, gpu(1)); });
  EXPECT_TRUE(says(error, "no room for a context of the runtime's own")) << error.what();
  EXPECT_TRUE(says(error, "vma::trim")) << error.what();
  program.faults().fail_calls({});
  EXPECT_EQ(program.runtime().where(memory).front().at, gpu(0));
  EXPECT_EQ(program.runtime().migrate(memory, gpu(1)).outcome, Outcome::done);
}

TEST(FirstMove, AtGatesFindsWhatWasPreparedForIt) {
  RuntimeOptions options = without_suspension();
  options.prepare = true;
  Program program({0, 1}, options);
  void* const memory = program.filled(size_bytes, gpu(0));
  const AttachedStream attached(program.runtime(), program.stream(0));
  const AttachedStream again(program.runtime(), program.stream(0), memory);
  ASSERT_TRUE(comes_true([&] { return program.calls(Call::destroy_exec_graph) == 1; }))
      << "the chain with which the kernel that stops streams is loaded";
  EXPECT_EQ(program.calls(Call::load_kernels), 1) << "once for each GPU";
  program.runtime().migrate_async(memory, gpu(1)).wait();
  EXPECT_EQ(program.calls(Call::load_kernels), 1);
  EXPECT_TRUE(program.whole(memory));
}

TEST(FirstMove, AtGatesIsNotPreparedUnlessThatIsAskedFor) {
  Program program({0}, without_suspension());
  const AttachedStream attached(program.runtime(), program.stream(0));
  void* const memory = program.filled(size_bytes, gpu(0));
  EXPECT_EQ(program.calls(Call::load_kernels), 0);
  program.runtime().free(memory);
}

TEST(FirstMove, FindsAContextWhereMemoryMayMove) {
  for (const char* const policy : {"", "auto"}) {
    SCOPED_TRACE(policy);
    RuntimeOptions options;
    options.policy = policy;
    Program program({0}, options);
    EXPECT_EQ(program.calls(Call::create_own_context), 0) << "no memory may move yet";
    program.filled(size_bytes, gpu(0));
    Runtime& runtime = program.runtime();
    const auto context_bytes = [&](Place at) {
      const std::vector<RuntimeStats::PlaceStats> places = runtime.stats().places;
      return std::ranges::find(places, at, &RuntimeStats::PlaceStats::at)->context_bytes;
    };
    program.runtime().alloc(size_bytes, gpu(0));  // Is not counted, though it may lie in between.
    constexpr std::size_t least_bytes = 200 << 20, most_bytes = 280 << 20;
    EXPECT_TRUE(comes_true([&] { return context_bytes(gpu(0)) > least_bytes; }));
    EXPECT_LT(context_bytes(gpu(0)), most_bytes);
    EXPECT_EQ(program.calls(Call::create_own_context), 1);
    EXPECT_EQ(context_bytes(gpu(1)), 0u) << "the program does not use it";
  }
}

TEST(FirstMove, FindsAContextWhereThereIsAPool) {
  Program program({0});
  const Pool pool = program.runtime().make_pool(gpu(0));
  EXPECT_TRUE(comes_true([&] { return program.calls(Call::create_own_context) == 1; }));
}

// In a process of its own, in which nobody has looked.
TEST(FirstMove, IsSparedTheLookForTheProgramsCopiesByTheFirstAllocation) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        static std::atomic<int> looks{0};
        CopyScopes::process().guarded_by(+[]() noexcept { ++looks; });
        RuntimeOptions options;
        options.prepare = false;
        Program unprepared({0}, options);
        unprepared.runtime().alloc(size_bytes, gpu(0));
        const bool left_to_the_move = looks == 0;
        Program program({0});
        program.runtime().alloc(size_bytes, gpu(0));
        program.runtime().alloc(size_bytes, gpu(0));
        std::_Exit(left_to_the_move && looks == 1 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

// What a preparation needs may fail; the move meets the failure, or does without.
TEST(FirstMove, WorksAfterAPreparationThatFailed) {
  for (const Call call : {Call::load_kernels, Call::make_chain, Call::create_stream}) {
    SCOPED_TRACE(to_string(call));
    RuntimeOptions options;
    options.prepare = true;
    Program program({0, 1}, options);
    void* const memory = program.filled(size_bytes, gpu(0));
    program.faults().count_only({call});
    program.faults().fail_calls({0});
    const AttachedStream attached(program.runtime(), program.stream(0));
    ASSERT_TRUE(comes_true([&] { return program.faults().fired() == 1; }));
    EXPECT_EQ(program.runtime().migrate_async(memory, gpu(1)).wait().outcome, Outcome::done);
    EXPECT_TRUE(program.whole(memory));
  }
}

}  // namespace
}  // namespace vma
