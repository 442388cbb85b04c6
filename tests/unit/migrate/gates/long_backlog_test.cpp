// Goal: a move that waits for a long kernel is no reason for `busy`; it delays others by at most
// one try, and ends at once when it is cancelled. Method: a stepped machine whose attached streams
// run a kernel of up to a minute.
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

/// A move from gpu(0) that waits for kernels. With several streams a gate looks at the backlogs
/// first; with one it does not.
struct LongBacklogRig {
  LongBacklogRig(const SimOptions& options, int streams, seconds kernel)
      : rig("test-4", {}, options), allocation(rig.filled(4, gpu(0), 4, 7)) {
    for (int i = 0; i < streams; ++i) {
      const BoundStream stream = rig.new_stream(0);
      rig.migrator().attached().attach(stream, allocation->begin());
      rig.launch_spin(stream, kernel);
    }
  }
  void submit() {
    MigrateOptions how;
    // A live copy would first load kernels, which waits for the running one.
    how.mode = Mode::stopped;
    how.deadline = deadline;
    task = rig.migrator().submit(allocation, {0, 1}, gpu(1), how);
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

class LongBacklog : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Streams, LongBacklog, testing::Values(1, 2));

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
    if (GetParam() == 1) {
      EXPECT_EQ(waits.task->report().retries, 0) << "one stop was enough";
    }
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
    EXPECT_LE(waits.time([&] { waits.rig.migrator().finish(); }), milliseconds(100));
    waits.expect_cancelled();
  });
}

TEST_P(LongBacklog, KeepsNeitherOtherMovesNorItsAllocationForLonger) {
  step(1, [](const SimOptions& options) {
    LongBacklogRig waits(options, GetParam(), seconds(40));
    const auto other = waits.rig.filled(4, gpu(2), 4, 11);
    waits.rig.migrator().attached().attach(waits.rig.new_stream(2), other->begin());
    waits.submit();
    EXPECT_LE(waits.time([&] { const MutexLock call(waits.allocation->operations()); }),
              try_limit + milliseconds(100));
    const auto task = waits.rig.migrator().submit(other, {0, 1}, gpu(3), {});
    // The other one may get its second try first.
    EXPECT_LE(waits.time([&] { task->wait(); }), 3 * try_limit);
    EXPECT_EQ(task->report().outcome, Outcome::done);
    EXPECT_FALSE(waits.task->done());
    waits.task->cancel();
    waits.task->wait();
  });
}

}  // namespace
}  // namespace vma
