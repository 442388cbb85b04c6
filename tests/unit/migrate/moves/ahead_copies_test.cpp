// Goal: a synchronous move needs no context of the runtime's own if its copies can be enqueued
// ahead of its hold, and is as safe as one that has it: it moves what earlier work wrote, lets no
// later work in between, and fails whole. Method: a machine whose program has a context on each
// GPU.
#include "migrate/moves/ahead_copies.hpp"

#include "support/drivers/intercept_driver.hpp"
#include "support/test_kernels.hpp"
#include "unit/migrate/moves/move_rig.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <tuple>

namespace vma {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t ahead_seed = 70;

/// Adds one to every word of the allocation on the stream.
class AddOne {
 public:
  AddOne(MoveRig& rig, BoundStream stream)
      : machine_(rig.machine()),
        stream_(stream),
        kernel_(machine_.load_kernel(stream.context, add_kernel())) {}
  ~AddOne() {
    machine_.wait_stream(stream_, never);
    machine_.unload_kernel(kernel_);
  }
  void launch(const Allocation& allocation) {
    machine_.launch(stream_, kernel_, {},
                    KernelArguments::of(to_pointer(allocation.begin()), allocation.size_bytes() / 8,
                                        std::uint64_t{1}));
  }

 private:
  SimDriver& machine_;
  const BoundStream stream_;
  const KernelHandle kernel_;
};

TEST(AheadCopies, NeedNoContextOfTheRuntimesOwn) {
  MoveRig rig;
  const auto allocation = rig.filled(12, gpu(0), 3, ahead_seed);
  rig.forget_calls();
  for (const Place to : {gpu(1), host(0), gpu(0), gpu(1)}) {
    EXPECT_EQ(rig.move(*allocation, to).chunks_moved, 4) << to_string(to);
    EXPECT_EQ(rig.wrong_for(0, *allocation, ahead_seed), 0u) << to_string(to);
    rig.expect_shown(*allocation);
  }
  EXPECT_EQ(rig.calls(Call::create_own_context), 0);
  EXPECT_EQ(rig.memory().chunks().ledger().leaks(), 0u);
}

TEST(AheadCopies, FollowEarlierWorkAndPrecedeLaterWork) {
  MoveRig rig;
  const auto allocation = rig.filled(8, gpu(0), 2, ahead_seed);
  const BoundStream here = rig.new_stream(0), there = rig.new_stream(1);
  for (const BoundStream stream : {here, there}) {
    AddOne adds(rig, stream);
    rig.launch_spin(stream, milliseconds(5));
    adds.launch(*allocation);
    EXPECT_EQ(rig.move(*allocation, stream.context == here.context ? gpu(1) : gpu(0)).chunks_moved,
              4);
    adds.launch(*allocation);
    rig.machine().wait_stream(stream, never);
  }
  EXPECT_EQ(rig.wrong(*allocation, ahead_seed + 4), 0u);
  EXPECT_EQ(rig.calls(Call::create_own_context), 0);
}

TEST(AheadCopies, AreUsedUpToTheirNumber) {
  for (const std::size_t chunks : {AheadCopies::copies_max, AheadCopies::copies_max + 1}) {
    MoveRig rig;
    const auto allocation = rig.filled(chunks, gpu(0), 1, ahead_seed);
    rig.forget_calls();
    EXPECT_EQ(rig.move(*allocation, gpu(1)).outcome, Outcome::done);
    EXPECT_EQ(rig.calls(Call::create_own_context), chunks > AheadCopies::copies_max ? 1 : 0);
    EXPECT_EQ(rig.wrong(*allocation, ahead_seed), 0u);
  }
}

TEST(AheadCopies, AreNotUsedWhereAContextOfTheRuntimesOwnExists) {
  MoveRig rig;
  const auto allocation = rig.filled(4, gpu(0), 2, ahead_seed);
  rig.engine().own_context(DeviceId{0});
  rig.forget_calls();
  EXPECT_EQ(rig.move(*allocation, gpu(1)).outcome, Outcome::done);
  EXPECT_EQ(rig.move(*allocation, gpu(0)).outcome, Outcome::done) << "gpu(0) reads";
  EXPECT_EQ(rig.calls(Call::stream_wait_event), 0);
  EXPECT_EQ(rig.calls(Call::create_own_context), 0);
  EXPECT_EQ(rig.wrong(*allocation, ahead_seed), 0u);
}

TEST(AheadCopies, OrOtherOnesHaveAllHostMemoryBeforeTheHold) {
  constexpr int chunks = 20;  // More than the runtime creates in advance.
  for (const bool own_context : {false, true}) {
    MoveRig rig;
    const auto allocation = rig.filled(chunks, gpu(0), 1, ahead_seed);
    if (own_context) rig.engine().own_context(DeviceId{0});
    rig.forget_calls();
    EXPECT_EQ(rig.move(*allocation, host(0)).chunks_moved, chunks);
    bool held = false;
    int created = 0, switched = 0;
    for (const TracedCall& call : rig.trace()) {
      held = held || call.call == Call::hold_context;
      created += held && switched < chunks && call.call == Call::create ? 1 : 0;
      switched += held && call.call == Call::unmap ? 1 : 0;
    }
    EXPECT_EQ(created, 0) << (own_context ? "with a context of its own" : "");
  }
}

TEST(AheadCopies, AreNotUsedForWhatNothingRunsBeside) {
  MoveRig rig;
  const auto allocation = rig.filled(4, gpu(0), 2, ahead_seed);
  MigrateOptions options;
  options.nothing_runs = true;
  rig.forget_calls();
  EXPECT_EQ(rig.move(*allocation, gpu(1), options).outcome, Outcome::done);
  EXPECT_EQ(rig.calls(Call::stream_wait_event) + rig.calls(Call::create_own_context), 0);
  EXPECT_EQ(rig.wrong(*allocation, ahead_seed), 0u);
}

TEST(AheadCopies, MoveTheChunksThatHaveTargets) {
  MoveRig rig;
  const auto allocation = rig.filled(6, gpu(0), 2, ahead_seed);
  rig.fail({Call::create}, {1, 2});  // The second one and its retry.
  const Error error =
      expect_error(ErrorKind::out_of_memory, [&] { rig.move(*allocation, gpu(1)); });
  rig.fail_nothing();
  ASSERT_NE(error.report(), nullptr);
  EXPECT_EQ(error.report()->outcome, Outcome::partly);
  EXPECT_EQ(error.report()->chunks_moved, 1);
  EXPECT_EQ(error.report()->failures.at(0).offset, 2 * rig.page());
  rig.expect_shown(*allocation);
  EXPECT_EQ(rig.wrong(*allocation, ahead_seed), 0u);
  EXPECT_EQ(rig.move(*allocation, gpu(1)).chunks_moved, 2);
  EXPECT_EQ(rig.memory().chunks().ledger().leaks(), 0u);
}

TEST(AheadCopies, MoveTheChunksBeforeOneThatCannotBeEnqueued) {
  for (const auto& [call, number, moved] : {std::tuple{Call::stream_wait_event, 0, 0},
                                            {Call::copy, 0, 0},
                                            {Call::copy, 1, 1},
                                            {Call::copy, 2, 2}}) {
    SCOPED_TRACE(testing::Message() << to_string(call) << " " << number);
    MoveRig rig;
    const auto allocation = rig.filled(6, gpu(0), 2, ahead_seed);
    rig.fail({call}, {number});
    const Error error =
        expect_error(ErrorKind::driver_failure, [&] { rig.move(*allocation, gpu(1)); });
    rig.fail_nothing();
    ASSERT_NE(error.report(), nullptr);
    EXPECT_EQ(error.report()->chunks_moved, moved);
    rig.expect_shown(*allocation);
    EXPECT_EQ(rig.wrong(*allocation, ahead_seed), 0u);
    EXPECT_EQ(rig.move(*allocation, gpu(1)).chunks_moved, 3 - moved);
    EXPECT_EQ(rig.memory().chunks().ledger().leaks(), 0u);
  }
}

/// Calls a function before the given call of a kind.
class BeforeCallDriver final : public InterceptDriver {
 public:
  BeforeCallDriver(MoveRig& rig, Call call, int number)
      : InterceptDriver(static_cast<Driver&>(rig.driver())), call_(call), number_(number) {}

  std::function<void()> before;
  std::atomic<int> holds{0}, waits{0};

 private:
  void around(Call call, const std::function<void()>& body) override {
    if (call == call_ && seen_++ == number_ && before) before();
    body();
    if (call == Call::hold_context) ++holds;
    if (call == Call::stream_wait_event) ++waits;
  }
  const Call call_;
  const int number_;
  int seen_ = 0;
};

TEST(AheadCopies, OrOtherOnesRunBesideNoSlowCalls) {
  for (const bool nothing_runs : {false, true}) {
    MoveRig rig;
    BeforeCallDriver driver(rig, Call::unmap, 0);
    Memory memory(driver, rig.topology(), {});
    CopyEngine engine(driver, rig.topology(), memory.contexts(), memory.chunks().ledger(),
                      memory.chunks().slow_calls().turn());
    Migrator migrator(memory, engine, MigratorLimits{});
    const auto allocation = memory.alloc(2 * rig.page(), gpu(0), {});
    bool free_turn = true;
    driver.before = [&] { free_turn = memory.chunks().slow_calls().turn().is_free(); };
    MigrateOptions options;
    options.nothing_runs = nothing_runs;
    allocation->begin_move();
    migrator.move(*allocation, {0, 1}, gpu(1), options);
    allocation->end_move();
    EXPECT_FALSE(free_turn);
    memory.free(allocation->begin());
  }
}

class SteppedAheadCopies : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, SteppedAheadCopies, testing::Range<std::uint64_t>(1, 9));

TEST_P(SteppedAheadCopies, KeepNobodyFromAllocatingWhileAMoveWaitsForABacklog) {
  step(GetParam(), [](const SimOptions& options) {
    MoveRig rig("test-2", {}, options);
    const auto allocation = rig.filled(4, gpu(0), 2, ahead_seed);
    const BoundStream stream = rig.new_stream(0);
    rig.launch_spin(stream, milliseconds(1500));
    const auto migrator = rig.machine().executor().spawn("migrator", [&] {
      MigrateOptions options_of_move;
      options_of_move.deadline = seconds(5);
      EXPECT_EQ(rig.move(*allocation, gpu(1), options_of_move).outcome, Outcome::done);
    });
    const TimePoint begin = rig.machine().clock().now();
    const auto nap = [&](TimePoint duration) {
      poll_until(rig.machine().clock(), rig.machine().clock().now() + duration,
                 [] { return false; });
    };
    nap(milliseconds(500));
    EXPECT_TRUE(rig.memory().chunks().slow_calls().turn().is_free());
    EXPECT_LT(rig.machine().clock().now() - begin, milliseconds(600));
    migrator->join();
    EXPECT_EQ(rig.wrong(*allocation, ahead_seed), 0u);
  });
}

// Work that is submitted after the move has waited for its first time needs other work, which the
// hold keeps: only the next try can succeed. What runs in between writes to the memory.
TEST_P(SteppedAheadCopies, AreMadeAgainIfTheHoldIsTriedAgain) {
  step(GetParam(), [](const SimOptions& options) {
    MoveRig rig("test-2", {}, options);
    constexpr int contexts = 2;
    BeforeCallDriver driver(rig, Call::record_context, contexts);
    Memory memory(driver, rig.topology(), {});
    CopyEngine engine(driver, rig.topology(), memory.contexts(), memory.chunks().ledger(),
                      memory.chunks().slow_calls().turn());
    Migrator migrator(memory, engine, MigratorLimits{});
    const auto allocation = memory.alloc(4 * rig.page(), gpu(0), {});
    rig.fill(*allocation, ahead_seed);
    const BoundStream waiter = rig.new_stream(0), writer = rig.new_stream(1);
    AddOne adds(rig, writer);
    rig.launch_spin(writer, TimePoint(1));
    rig.machine().wait_stream(writer, never);
    std::uint64_t* word = nullptr;
    driver.before = [&] { word = rig.stop(waiter); };
    const auto user = rig.machine().executor().spawn("user", [&] {
      poll_until(driver.clock(), never, [&] { return driver.holds >= contexts; });
      const WordOperation write{WordOperation::Kind::write, address_of(word), 1};
      rig.machine().batch(writer, {&write, 1});  // Held until the first try gives up.
      rig.launch_spin(writer, milliseconds(1));
      adds.launch(*allocation);
    });
    allocation->begin_move();
    const MigrationReport report = migrator.move(*allocation, {0, 1}, gpu(1), {});
    allocation->end_move();
    user->join();
    EXPECT_EQ(report.outcome, Outcome::done);
    EXPECT_GE(report.retries, 1);
    EXPECT_GE(driver.waits, 2 * contexts) << "the copies of each try wait for both contexts";
    EXPECT_EQ(rig.calls(Call::create_own_context), 0);
    EXPECT_EQ(rig.wrong(*allocation, ahead_seed + 1), 0u);
    memory.free(allocation->begin());
  });
}

}  // namespace
}  // namespace vma
