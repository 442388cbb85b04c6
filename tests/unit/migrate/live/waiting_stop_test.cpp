// Goal: whatever happens while a gate waits for a backlog, it does not stay closed and each chunk
// is whole. Method: moves on a stepped machine, with a gate for each chunk.
#include "unit/migrate/live/batch_rig.hpp"

#include <gtest/gtest.h>

#include <exception>
#include <memory>

namespace vma {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int all_chunks = batch_chunks;
constexpr microseconds gate_for_each(1);

class WaitingStop : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, WaitingStop, testing::Range<std::uint64_t>(1, 5));

// The stall budget of a second does not suffice for all: gates wait for it as always.
TEST_P(WaitingStop, NothingStopsThatTheStallBudgetDoesNotPayFor) {
  step(GetParam(), [](const SimOptions& options) {
    BatchRig rig(options);
    MigratorLimits frugal;
    frugal.stall_budget = microseconds(200);
    Migrator migrator(rig.memory, rig.engine, frugal);
    migrator.attached().attach(rig.stream, Address{});
    MigrateOptions how;
    how.max_stall = gate_for_each;
    const TimePoint begin = rig.driver.clock().now();
    const auto task = migrator.submit(rig.allocation, {0, batch_chunks}, gpu(1), how);
    task->wait();
    const double took_s = std::chrono::duration<double>(rig.driver.clock().now() - begin).count();
    const MigrationReport report = task->report();
    EXPECT_EQ(report.outcome, Outcome::done);
    const double stall_s =
        std::chrono::duration<double>(report.stall.median).count() * batch_chunks;
    EXPECT_GE(took_s, stall_s / 200e-6 - 2) << "a burst may use up the budget of a second";
    migrator.finish();
    migrator.attached().detach(rig.stream, Address{});
    rig.expect_moved(all_chunks);
  });
}

// A move already waits for the budget when more is allowed.
TEST_P(WaitingStop, WhatIsAllowedAheadIsSpentAtOnce) {
  step(GetParam(), [](const SimOptions& options) {
    BatchRig rig(options);
    MigratorLimits frugal;
    frugal.stall_budget = microseconds(1);
    Migrator migrator(rig.memory, rig.engine, frugal);
    migrator.attached().attach(rig.stream, Address{});
    MigrateOptions how;
    how.max_stall = gate_for_each;
    const auto task = migrator.submit(rig.allocation, {0, batch_chunks}, gpu(1), how);
    sleep(rig.rig, seconds(2));
    EXPECT_FALSE(task->done());
    const TimePoint allowed = rig.driver.clock().now();
    migrator.allow_ahead(seconds(1));
    task->wait();
    EXPECT_LE(rig.driver.clock().now() - allowed, milliseconds(50));
    EXPECT_EQ(task->report().outcome, Outcome::done);
    migrator.finish();
    migrator.attached().detach(rig.stream, Address{});
    rig.expect_moved(all_chunks);
  });
}

/// A stream that does not get to its gate.
struct WaitingRig : BatchRig {
  explicit WaitingRig(const SimOptions& options) : BatchRig(options) {
    move(gpu(1), gate_for_each);
    move(gpu(0), gate_for_each);
    rig.forget_calls();
    word = rig.stop(stream);
    task = submit(gpu(1), gate_for_each);
    sleep(rig, milliseconds(200));  // Not long enough to look at the backlog instead.
    EXPECT_GE(rig.calls(Call::stop), 1);
    EXPECT_FALSE(task->done());
  }
  /// The stream gets through a gate that was called off.
  void expect_stream_runs() {
    MoveRig::let_go(word);
    EXPECT_TRUE(rig.machine().wait_stream(stream, driver.clock().now() + seconds(1)));
  }
  std::uint64_t* word;
  std::shared_ptr<MigrationTask> task;
};

TEST_P(WaitingStop, ACancelledMoveCallsItOff) {
  step(GetParam(), [](const SimOptions& options) {
    WaitingRig rig(options);
    const TimePoint begin = rig.driver.clock().now();
    rig.task->cancel();
    rig.task->wait();
    EXPECT_LE(rig.driver.clock().now() - begin, milliseconds(100));
    EXPECT_EQ(rig.task->report().outcome, Outcome::cancelled);
    rig.expect_stream_runs();
    rig.expect_moved(0);
    EXPECT_EQ(rig.move(gpu(1), gate_for_each).chunks_live, all_chunks);
    rig.expect_moved(all_chunks);
  });
}

TEST_P(WaitingStop, ADetachedStreamIsNotWaitedFor) {
  step(GetParam(), [](const SimOptions& options) {
    WaitingRig rig(options);
    rig.migrator.attached().attach(rig.rig.new_stream(0), rig.allocation->begin());
    const TimePoint begin = rig.driver.clock().now();
    rig.migrator.attached().detach(rig.stream, Address{});
    EXPECT_LE(rig.driver.clock().now() - begin, milliseconds(100));
    rig.task->wait();
    EXPECT_EQ(rig.task->report().chunks_moved, all_chunks);
    rig.expect_stream_runs();
    rig.migrator.attached().attach(rig.stream, Address{});
    rig.expect_moved(all_chunks);
  });
}

TEST_P(WaitingStop, AStreamAttachedMeanwhileIsStoppedToo) {
  step(GetParam(), [](const SimOptions& options) {
    WaitingRig rig(options);
    const BoundStream other = rig.rig.new_stream(1);
    rig.migrator.attached().attach(other, rig.allocation->begin());
    rig.expect_stream_runs();
    rig.task->wait();
    EXPECT_EQ(rig.task->report().chunks_moved, all_chunks);
    EXPECT_GE(rig.task->report().reasons["streams_changed"], 1);
    rig.expect_moved(all_chunks);
    rig.migrator.attached().detach(other, rig.allocation->begin());
  });
}

TEST_P(WaitingStop, AFailedSwitchLeavesTheChunksBehindIt) {
  step(GetParam(), [](const SimOptions& options) {
    WaitingRig rig(options);
    rig.driver.before_unmap = [&](int) {
      throw Error(ErrorKind::driver_failure, "cuMemUnmap", "told to fail");
    };
    rig.expect_stream_runs();
    rig.task->wait();
    EXPECT_EQ(rig.task->report().outcome, Outcome::failed);
    EXPECT_EQ(rig.task->report().chunks_moved, 0);
    rig.driver.before_unmap = nullptr;
    rig.expect_moved(0);
    EXPECT_EQ(rig.move(gpu(1), gate_for_each).chunks_live, all_chunks);
    rig.expect_moved(all_chunks);
  });
}

// What is written while the gate is on its way is settled.
TEST_P(WaitingStop, WritesBehindTheCopiesAreNotLost) {
  step(GetParam(), [](const SimOptions& options) {
    WaitingRig rig(options);
    MoveRig::let_go(rig.word);
    rig.task->wait();
    EXPECT_EQ(rig.task->report().chunks_moved, all_chunks);
    rig.expect_moved(all_chunks);
  });
}

TEST_P(WaitingStop, ReadsAndPinsNeedNotWaitForABacklog) {
  step(GetParam(), [](const SimOptions& options) {
    WaitingRig rig(options);
    const TimePoint begin = rig.driver.clock().now();
    { const MutexLock operations(rig.allocation->operations()); }
    EXPECT_LE(rig.driver.clock().now() - begin, milliseconds(1));
    rig.expect_stream_runs();
    rig.task->wait();
    EXPECT_EQ(rig.task->report().chunks_moved, all_chunks);
    rig.expect_moved(all_chunks);
  });
}

TEST_P(WaitingStop, AnAllocationInUseWhenTheGateClosesIsTriedAgain) {
  step(GetParam(), [](const SimOptions& options) {
    WaitingRig rig(options);
    {
      const MutexLock operations(rig.allocation->operations());
      rig.expect_stream_runs();
      sleep(rig.rig, milliseconds(50));
      for (std::size_t slot = 0; slot < batch_chunks; ++slot) {
        EXPECT_EQ(rig.allocation->place(slot), gpu(0));
      }
    }
    rig.task->wait();
    EXPECT_EQ(rig.task->report().chunks_moved, all_chunks);
    rig.expect_moved(all_chunks);
  });
}

// Only the GPU of the attached stream may use the memory meanwhile.
TEST_P(WaitingStop, OnlyGpusInUseGetAccessWhileStreamsAreStopped) {
  step(GetParam(), [](const SimOptions& options) {
    BatchRig rig(options);
    rig.driver.granted_most = 0;
    rig.move(gpu(1), milliseconds(500));
    EXPECT_EQ(rig.driver.granted_most, 1u);
    rig.expect_moved(all_chunks);  // As kernels of both GPUs see it.
    const BoundStream other = rig.rig.new_stream(1);
    rig.migrator.attached().attach(other, Address{});
    rig.move(gpu(0), milliseconds(500));
    EXPECT_EQ(rig.driver.granted_most, 2u);
    rig.migrator.attached().detach(other, Address{});
    rig.expect_moved(0);
  });
}

// Chunks that leave different GPUs: each settles on its own.
TEST_P(WaitingStop, ASwapSharesAGate) {
  step(GetParam(), [](const SimOptions& options) {
    ManyRig rig(options);
    rig.submit_all([](std::size_t i) { return gpu(i % 2 == 0 ? 0 : 1); });
    rig.wait();
    rig.tasks.clear();
    const BoundStream other = rig.rig.new_stream(1);
    rig.migrator.attached().attach(other, Address{});
    const auto swap = [&](std::size_t even, std::size_t odd) {
      const std::uint64_t before = rig.gates();
      rig.submit_all([=](std::size_t i) { return gpu(static_cast<int>(i % 2 == 0 ? even : odd)); });
      rig.wait();
      for (std::size_t i = 0; i < batch_chunks; ++i) {
        EXPECT_EQ(rig.tasks[i]->report().chunks_live, 1) << i;
        EXPECT_EQ(rig.allocations[i]->place(0), gpu(static_cast<int>(i % 2 == 0 ? even : odd)));
        EXPECT_EQ(rig.rig.wrong(*rig.allocations[i], batch_seed_word + i), 0u);
      }
      rig.tasks.clear();
      return rig.gates() - before;
    };
    swap(1, 0);  // Loads what copies off the other GPU, which may take longer than a leader waits.
    EXPECT_EQ(swap(0, 1), 1u);
    rig.migrator.attached().detach(other, Address{});
  });
}

}  // namespace
}  // namespace vma
