// Goal: a move that waits for a long kernel is no reason for `busy`; it delays others by at most
// one try, and ends at once when it is cancelled. Method: a stepped machine whose attached streams
// run a kernel of up to a minute, with context holds, and without, where gates wait.
#include "unit/migrate/moves/move_rig.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// How long one try keeps others waiting.
constexpr seconds try_limit(2);

/// A move from gpu(0) that waits for kernels.
struct LongBacklogRig {
  LongBacklogRig(SimOptions options, bool holds, seconds kernel)
      : rig("test-4", {}, (options.context_holds = holds, options)),
        allocation(rig.filled(4, gpu(0), 4, 7)) {
    const int streams = holds ? 2 : 1;
    for (int i = 0; i < streams; ++i) {
      const BoundStream stream = rig.new_stream(0);
      rig.mover().attached().attach(stream, allocation->begin());
      rig.launch_spin(stream, kernel);
    }
  }
  void submit() {
    MigrateOptions how;
    // A live copy would first load kernels, which waits for the running one.
    how.mode = Mode::stopped;
    how.deadline = deadline;
    task = rig.mover().submit(allocation, {0, 1}, gpu(1), how);
    sleep(rig, milliseconds(500));
    EXPECT_FALSE(task->done());
  }
  /// The time that `body` takes.
  template <typename Body>
  TimePoint time(Body&& body) {
    const TimePoint begin = rig.machine().clock().now();
    body();
    return rig.machine().clock().now() - begin;
  }
  void expect_cancelled() {
    expect_error(ErrorKind::cancelled, [&] { std::rethrow_exception(task->error()); });
  }

  MoveRig rig;
  std::shared_ptr<Allocation> allocation;
  std::shared_ptr<MigrationTask> task;
  seconds deadline{60};
};

class LongBacklog : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Holds, LongBacklog, testing::Bool());

TEST_P(LongBacklog, IsWaitedForUntilTheDeadline) {
  step(1, [](const SimOptions& options) {
    constexpr seconds kernel(40);  // Longer than all tries that count against the limit of retries.
    LongBacklogRig waits(options, GetParam(), kernel);
    waits.submit();
    waits.task->wait();
    EXPECT_EQ(waits.task->report().outcome, Outcome::done);
    EXPECT_EQ(waits.rig.wrong(*waits.allocation, 7), 0u);
  });
}

TEST_P(LongBacklog, OfSecondsNeedsNoDeadline) {
  step(1, [](const SimOptions& options) {
    LongBacklogRig waits(options, GetParam(), seconds(20));
    waits.deadline = seconds(0);
    waits.submit();
    waits.task->wait();
    EXPECT_EQ(waits.task->report().outcome, Outcome::done);
    EXPECT_EQ(waits.task->report().stop, GetParam() ? StopKind::hold : StopKind::gate);
  });
}

TEST_P(LongBacklog, EndsOnCancel) {
  step(1, [](const SimOptions& options) {
    LongBacklogRig waits(options, GetParam(), seconds(40));
    waits.submit();
    waits.task->cancel();
    EXPECT_LE(waits.time([&] { waits.task->wait(); }), milliseconds(100));
    waits.expect_cancelled();
  });
}

TEST_P(LongBacklog, EndsWhenTheMemoryIsFreed) {
  step(1, [](const SimOptions& options) {
    LongBacklogRig waits(options, GetParam(), seconds(40));
    waits.submit();
    waits.rig.memory().free_async(waits.allocation->begin(), waits.rig.new_stream(0));
    EXPECT_LE(waits.time([&] { waits.task->wait(); }), milliseconds(100));
    waits.expect_cancelled();
  });
}

TEST_P(LongBacklog, EndsAtShutdown) {
  step(1, [](const SimOptions& options) {
    LongBacklogRig waits(options, GetParam(), seconds(40));
    waits.submit();
    EXPECT_LE(waits.time([&] { waits.rig.mover().stop(); }), milliseconds(100));
    waits.expect_cancelled();
  });
}

TEST_P(LongBacklog, KeepsNobodyFromAllocating) {
  step(1, [](const SimOptions& options) {
    LongBacklogRig waits(options, GetParam(), seconds(2));
    waits.submit();
    std::shared_ptr<Allocation> other;
    EXPECT_LE(
        waits.time([&] { other = waits.rig.memory().alloc(64 * waits.rig.page(), gpu(1), {}); }),
        milliseconds(50));
    EXPECT_FALSE(waits.task->done()) << "the kernel still runs";
    waits.task->wait();
    EXPECT_EQ(waits.task->report().outcome, Outcome::done);
    waits.rig.memory().free(other->begin());
  });
}

TEST_P(LongBacklog, KeepsNeitherReadsNorOtherHoldsForLong) {
  step(1, [](const SimOptions& options) {
    LongBacklogRig waits(options, GetParam(), seconds(40));
    waits.submit();
    EXPECT_LE(waits.time([&] { const MutexLock call(waits.allocation->operations()); }),
              milliseconds(100));
    if (GetParam()) {
      const auto other = waits.rig.filled(4, gpu(2), 4, 11);
      waits.rig.mover().attached().attach(waits.rig.new_stream(2), other->begin());
      const auto task = waits.rig.mover().submit(other, {0, 1}, gpu(3), {});
      // The other one may get its second try first.
      EXPECT_LE(waits.time([&] { task->wait(); }), 3 * try_limit);
      EXPECT_EQ(task->report().outcome, Outcome::done);
    }
    EXPECT_FALSE(waits.task->done());
    waits.task->cancel();
    waits.task->wait();
  });
}

}  // namespace
}  // namespace vma
