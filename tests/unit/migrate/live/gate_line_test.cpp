// Goal: gates that are sent behind each other arrive one after the other, not each behind a backlog
// of its own; whatever happens to one of them, none stays closed and each chunk is whole. Method:
// moves on a stepped machine whose program launches far ahead, with a gate for each chunk.
#include "migrate/gates/program_calls.hpp"
#include "unit/migrate/live/batch_rig.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <exception>
#include <memory>

namespace vma {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int line_chunks = batch_chunks;
constexpr milliseconds kernel(8);
constexpr int ahead = 16;
constexpr milliseconds backlog = ahead * kernel;
constexpr microseconds gate_for_each(1);

/// Keeps as many kernels launched on the stream as it is ahead.
class LineProgram {
 public:
  explicit LineProgram(DisturbedRig& rig, std::size_t kernels_ahead = ahead)
      : rig_(rig), ahead_(kernels_ahead) {
    task_ = machine().executor().spawn("program", [this] { run(); });
  }
  ~LineProgram() {
    ended_ = true;
    task_->join();
  }

 private:
  SimDriver& machine() { return rig_.rig.machine(); }
  void run() {
    std::deque<EventHandle> launched;
    while (!ended_) {
      rig_.rig.launch_spin(rig_.stream, kernel);
      launched.push_back(machine().create_event(rig_.stream.context));
      machine().record(launched.back(), rig_.stream);
      if (launched.size() >= ahead_) end_first(launched);
    }
    while (!launched.empty()) end_first(launched);
  }
  void end_first(std::deque<EventHandle>& launched) {
    machine().wait_event(launched.front(), never);
    machine().destroy_event(launched.front());
    launched.pop_front();
  }
  DisturbedRig& rig_;
  const std::size_t ahead_;
  bool ended_ = false;  // Only one thread runs at a time.
  std::unique_ptr<Task> task_;
};

class GateLines : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, GateLines, testing::Range<std::uint64_t>(1, 5));

/// Loads all that is loaded at first use.
void move_there_and_back(BatchRig& rig) {
  rig.move(gpu(1), gate_for_each);
  rig.move(gpu(0), gate_for_each);
}

TEST_P(GateLines, ManyGatesTakeHardlyMoreThanOneBacklog) {
  step(GetParam(), [](const SimOptions& options) {
    BatchRig rig(options);
    move_there_and_back(rig);
    const LineProgram program(rig);
    sleep(rig.rig, 2 * backlog);
    const MigrationReport report = rig.move(gpu(1), gate_for_each);
    EXPECT_EQ(report.stall.count, static_cast<std::uint64_t>(line_chunks));
    EXPECT_EQ(report.chunks_live, line_chunks);
    EXPECT_EQ(report.retries, 0);
    EXPECT_GE(report.wall, backlog / 2);
    EXPECT_LE(report.wall, 2 * backlog) << "and not " << line_chunks;
    rig.expect_moved(line_chunks);
  });
}

// As while the program has launched all that its context has room for: each launch of the runtime
// then waits for a kernel to end, and beside a stopped stream none ends.
MigrationReport move_beside_full_queues(BatchRig& rig) {
  int launches = 0;
  rig.driver.before_launch = [&] {
    ++launches;
    sleep(rig.rig, 2 * kernel);
  };
  MigrationReport report = rig.move(gpu(0), gate_for_each);
  rig.driver.before_launch = nullptr;
  EXPECT_GE(launches, line_chunks);
  EXPECT_EQ(report.chunks_moved, line_chunks);
  return report;
}

TEST_P(GateLines, NothingIsLaunchedWhenAStreamMayArrive) {
  step(GetParam(), [](const SimOptions& options) {
    BatchRig rig(options);
    move_there_and_back(rig);
    const LineProgram program(rig);
    sleep(rig.rig, 2 * backlog);
    rig.move(gpu(1), gate_for_each);  // Tells how deep the backlog is.
    EXPECT_FALSE(move_beside_full_queues(rig).reasons.contains("opened_by_watchdog"));
  });
}

TEST_P(GateLines, ABacklogOfEarlierIsNoReasonToLaunch) {
  step(GetParam(), [](const SimOptions& options) {
    BatchRig rig(options);
    move_there_and_back(rig);
    {
      const LineProgram program(rig);
      sleep(rig.rig, 2 * backlog);
      rig.move(gpu(1), gate_for_each);
    }
    sleep(rig.rig, seconds(2));
    const LineProgram program(rig, 2);
    sleep(rig.rig, backlog);
    const std::uint64_t opened = move_beside_full_queues(rig).reasons["opened_by_watchdog"];
    EXPECT_LE(opened, 1u) << "the first call that takes long may come at the wrong moment";
  });
}

/// A program that stops launching while a move asks for it. What is on its way by then is waited
/// for.
class PausedProgram {
 public:
  explicit PausedProgram(BatchRig& rig) {
    ProgramCalls::of_process().pause_launches.set(
        [](std::int64_t limit_ns, void* data) {
          auto& self = *static_cast<PausedProgram*>(data);
          EXPECT_NE(self.paused_, limit_ns > 0) << "pauses of one move do not nest";
          self.paused_ = limit_ns > 0;
          self.is_quiet_ = false;
        },
        this);
    rig.driver.before_launch = [this, &rig] {
      if (is_quiet_) return;
      is_quiet_ = paused_;
      ++waits;
      sleep(rig.rig, 2 * kernel);
    };
  }
  ~PausedProgram() { ProgramCalls::of_process().pause_launches.set(nullptr, nullptr); }

  int waits = 0;  // Launches of the runtime that waited.

 private:
  bool paused_ = false, is_quiet_ = false;
};

TEST_P(GateLines, AProgramThatPausesLetsFewLaunchesWait) {
  step(GetParam(), [](const SimOptions& options) {
    BatchRig rig(options);
    move_there_and_back(rig);
    const LineProgram program(rig);
    sleep(rig.rig, 2 * backlog);
    rig.move(gpu(1), gate_for_each);  // Tells how deep the backlog is.
    PausedProgram paused(rig);
    const MigrationReport report = rig.move(gpu(0), gate_for_each);
    rig.driver.before_launch = nullptr;
    EXPECT_EQ(report.chunks_moved, line_chunks);
    EXPECT_FALSE(report.reasons.contains("opened_by_watchdog"));
    // One to copy all the others, and one for each gate, whose settling and stop are two launches.
    EXPECT_LE(paused.waits, line_chunks + line_chunks / 2);
    rig.expect_moved(0);
  });
}

TEST_P(GateLines, GatesOfOneLineMoveSeveralMigrations) {
  step(GetParam(), [](const SimOptions& options) {
    ManyRig rig(options);
    MigrateOptions each;
    each.max_stall = gate_for_each;
    rig.submit_all(gpu(1), each);
    rig.wait();
    rig.tasks.clear();
    const LineProgram program(rig);
    sleep(rig.rig, 2 * backlog);
    const std::uint64_t before = rig.gates();
    const TimePoint begin = rig.driver.clock().now();
    rig.submit_all(gpu(0), each);
    rig.wait();
    EXPECT_LE(rig.driver.clock().now() - begin, 2 * backlog);
    EXPECT_EQ(rig.gates() - before, static_cast<std::uint64_t>(line_chunks));
    rig.expect_moved(gpu(0));
  });
}

// The stall budget of a second does not suffice for all: gates wait for it as always.
TEST_P(GateLines, NoGateIsSentThatTheStallBudgetDoesNotPayFor) {
  step(GetParam(), [](const SimOptions& options) {
    BatchRig rig(options);
    MoverLimits frugal;
    frugal.stall_budget = microseconds(200);
    Mover mover(rig.memory, rig.engine, frugal);
    mover.attached().attach(rig.stream, Address{});
    MigrateOptions how;
    how.max_stall = gate_for_each;
    const TimePoint begin = rig.driver.clock().now();
    const auto task = mover.submit(rig.allocation, {0, batch_chunks}, gpu(1), how);
    task->wait();
    const double took_s = std::chrono::duration<double>(rig.driver.clock().now() - begin).count();
    const MigrationReport report = task->report();
    EXPECT_EQ(report.outcome, Outcome::done);
    const double stall_s =
        std::chrono::duration<double>(report.stall.median).count() * batch_chunks;
    EXPECT_GE(took_s, stall_s / 200e-6 - 2) << "a burst may use up the budget of a second";
    mover.stop();
    mover.attached().detach(rig.stream, Address{});
    rig.expect_moved(line_chunks);
  });
}

// A move already waits for the budget when more is allowed.
TEST_P(GateLines, WhatIsAllowedAheadIsSpentAtOnce) {
  step(GetParam(), [](const SimOptions& options) {
    BatchRig rig(options);
    MoverLimits frugal;
    frugal.stall_budget = microseconds(1);
    Mover mover(rig.memory, rig.engine, frugal);
    mover.attached().attach(rig.stream, Address{});
    MigrateOptions how;
    how.max_stall = gate_for_each;
    const auto task = mover.submit(rig.allocation, {0, batch_chunks}, gpu(1), how);
    sleep(rig.rig, seconds(2));
    EXPECT_FALSE(task->done());
    const TimePoint allowed = rig.driver.clock().now();
    mover.allow_ahead(seconds(1));
    task->wait();
    EXPECT_LE(rig.driver.clock().now() - allowed, milliseconds(50));
    EXPECT_EQ(task->report().outcome, Outcome::done);
    mover.stop();
    mover.attached().detach(rig.stream, Address{});
    rig.expect_moved(line_chunks);
  });
}

/// A stream that does not get to its gates, several of which are on their way.
struct WaitingRig : BatchRig {
  explicit WaitingRig(const SimOptions& options) : BatchRig(options) {
    move(gpu(1), gate_for_each);
    move(gpu(0), gate_for_each);
    rig.forget_calls();
    word = rig.stop(stream);
    task = submit(gpu(1), gate_for_each);
    sleep(rig, milliseconds(200));  // Not long enough to look at the backlog instead.
    EXPECT_GE(rig.calls(Call::stop), 4);
    EXPECT_FALSE(task->done());
  }
  /// The stream gets through all gates that were called off.
  void expect_stream_runs() {
    MoveRig::let_go(word);
    EXPECT_TRUE(rig.machine().wait_stream(stream, driver.clock().now() + seconds(1)));
  }
  std::uint64_t* word;
  std::shared_ptr<MigrationTask> task;
};

TEST_P(GateLines, ACancelledMoveCallsAllOff) {
  step(GetParam(), [](const SimOptions& options) {
    WaitingRig rig(options);
    const TimePoint begin = rig.driver.clock().now();
    rig.task->cancel();
    rig.task->wait();
    EXPECT_LE(rig.driver.clock().now() - begin, milliseconds(100));
    EXPECT_EQ(rig.task->report().outcome, Outcome::cancelled);
    rig.expect_stream_runs();
    rig.expect_moved(0);
    EXPECT_EQ(rig.move(gpu(1), gate_for_each).chunks_live, line_chunks);
    rig.expect_moved(line_chunks);
  });
}

TEST_P(GateLines, ADetachedStreamIsWaitedForByNoGate) {
  step(GetParam(), [](const SimOptions& options) {
    WaitingRig rig(options);
    rig.mover.attached().attach(rig.rig.new_stream(0), rig.allocation->begin());
    const TimePoint begin = rig.driver.clock().now();
    rig.mover.attached().detach(rig.stream, Address{});
    EXPECT_LE(rig.driver.clock().now() - begin, milliseconds(100));
    rig.task->wait();
    EXPECT_EQ(rig.task->report().chunks_moved, line_chunks);
    rig.expect_stream_runs();
    rig.mover.attached().attach(rig.stream, Address{});
    rig.expect_moved(line_chunks);
  });
}

TEST_P(GateLines, AStreamAttachedMeanwhileIsStoppedToo) {
  step(GetParam(), [](const SimOptions& options) {
    WaitingRig rig(options);
    const BoundStream other = rig.rig.new_stream(1);
    rig.mover.attached().attach(other, rig.allocation->begin());
    rig.expect_stream_runs();
    rig.task->wait();
    EXPECT_EQ(rig.task->report().chunks_moved, line_chunks);
    EXPECT_GE(rig.task->report().reasons["streams_changed"], 1);
    rig.expect_moved(line_chunks);
    rig.mover.attached().detach(other, rig.allocation->begin());
  });
}

TEST_P(GateLines, AFailedSwitchCallsTheGatesBehindItOff) {
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
    EXPECT_EQ(rig.move(gpu(1), gate_for_each).chunks_live, line_chunks);
    rig.expect_moved(line_chunks);
  });
}

// What is written while the gates are on their way is settled.
TEST_P(GateLines, WritesBehindTheCopiesAreNotLost) {
  step(GetParam(), [](const SimOptions& options) {
    WaitingRig rig(options);
    MoveRig::let_go(rig.word);
    rig.task->wait();
    EXPECT_EQ(rig.task->report().chunks_moved, line_chunks);
    rig.expect_moved(line_chunks);
  });
}

TEST_P(GateLines, ReadsAndPinsNeedNotWaitForABacklog) {
  step(GetParam(), [](const SimOptions& options) {
    WaitingRig rig(options);
    const TimePoint begin = rig.driver.clock().now();
    { const MutexLock operations(rig.allocation->operations()); }
    EXPECT_LE(rig.driver.clock().now() - begin, milliseconds(1));
    rig.expect_stream_runs();
    rig.task->wait();
    EXPECT_EQ(rig.task->report().chunks_moved, line_chunks);
    rig.expect_moved(line_chunks);
  });
}

TEST_P(GateLines, AnAllocationInUseWhenTheGateClosesIsTriedAgain) {
  step(GetParam(), [](const SimOptions& options) {
    WaitingRig rig(options);
    {
      const MutexLock operations(rig.allocation->operations());
      rig.expect_stream_runs();
      sleep(rig.rig, milliseconds(50));
      for (std::size_t slot = 0; slot < batch_chunks; ++slot) {
        EXPECT_EQ(rig.allocation->home(slot), gpu(0));
      }
    }
    rig.task->wait();
    EXPECT_EQ(rig.task->report().chunks_moved, line_chunks);
    rig.expect_moved(line_chunks);
  });
}

// Only the GPU of the attached stream may use the memory meanwhile.
TEST_P(GateLines, OnlyGpusInUseGetAccessWhileStreamsAreStopped) {
  step(GetParam(), [](const SimOptions& options) {
    BatchRig rig(options);
    rig.driver.granted_most = 0;
    rig.move(gpu(1), milliseconds(500));
    EXPECT_EQ(rig.driver.granted_most, 1u);
    rig.expect_moved(line_chunks);  // As kernels of both GPUs see it.
    const BoundStream other = rig.rig.new_stream(1);
    rig.mover.attached().attach(other, Address{});
    rig.move(gpu(0), milliseconds(500));
    EXPECT_EQ(rig.driver.granted_most, 2u);
    rig.mover.attached().detach(other, Address{});
    rig.expect_moved(0);
  });
}

// More line_chunks than are staged before the first gate is sent: the others are staged while it
// waits, when this move has `operations` of their allocation.
TEST_P(GateLines, StagesMoreWhileGatesAreOnTheirWay) {
  step(GetParam(), [](const SimOptions& options) {
    BatchRig rig(options);
    constexpr std::uint64_t many = 40;
    AllocOptions chunked;
    chunked.chunk_bytes = rig.rig.page();
    const auto large = rig.memory.alloc(many * rig.rig.page(), gpu(0), chunked);
    rig.rig.fill(*large, batch_seed_word);
    rig.move(gpu(1), gate_for_each);
    const LineProgram program(rig);
    sleep(rig.rig, 2 * backlog);
    MigrateOptions how;
    how.max_stall = gate_for_each;
    const auto task = rig.mover.submit(large, {0, many}, gpu(1), how);
    task->wait();
    EXPECT_EQ(task->report().outcome, Outcome::done);
    EXPECT_EQ(task->report().stall.count, many);
    EXPECT_LE(task->report().wall, 8 * backlog) << "and not " << many;
    EXPECT_EQ(rig.rig.wrong(*large, batch_seed_word), 0u);
    rig.memory.free(large->begin());
  });
}

// Chunks that leave different GPUs: each settles on its own.
TEST_P(GateLines, ASwapSharesAGate) {
  step(GetParam(), [](const SimOptions& options) {
    ManyRig rig(options);
    rig.submit_all([](std::size_t i) { return gpu(i % 2 == 0 ? 0 : 1); });
    rig.wait();
    rig.tasks.clear();
    const BoundStream other = rig.rig.new_stream(1);
    rig.mover.attached().attach(other, Address{});
    const auto swap = [&](std::size_t even, std::size_t odd) {
      const std::uint64_t before = rig.gates();
      rig.submit_all([=](std::size_t i) { return gpu(static_cast<int>(i % 2 == 0 ? even : odd)); });
      rig.wait();
      for (std::size_t i = 0; i < batch_chunks; ++i) {
        EXPECT_EQ(rig.tasks[i]->report().chunks_live, 1) << i;
        EXPECT_EQ(rig.allocations[i]->home(0), gpu(static_cast<int>(i % 2 == 0 ? even : odd)));
        EXPECT_EQ(rig.rig.wrong(*rig.allocations[i], batch_seed_word + i), 0u);
      }
      rig.tasks.clear();
      return rig.gates() - before;
    };
    swap(1, 0);  // Loads what copies off the other GPU, which may take longer than a leader waits.
    EXPECT_EQ(swap(0, 1), 1u);
    rig.mover.attached().detach(other, Address{});
  });
}

}  // namespace
}  // namespace vma
