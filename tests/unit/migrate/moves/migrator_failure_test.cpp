// Goal: lack of memory is detected before anything is stopped; a move that fails halfway leaves
// finished chunks at the target and reports exactly that; work that does not end, or a thread in
// cuCtxDestroy, ends the move as `busy` with the mapping unchanged.
#include "base/printable.hpp"
#include "support/stepped_executor.hpp"
#include "unit/migrate/moves/move_rig.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;

int calls_that_stop(const MoveRig& rig) {
  return rig.calls(Call::record_context) + rig.calls(Call::hold_context);
}

void expect_untouched(MoveRig& rig, const Allocation& allocation, std::uint64_t seed) {
  EXPECT_EQ(allocation.extents(), (std::vector<Extent>{{0, allocation.size_bytes(), gpu(0), 0}}));
  rig.expect_shown(allocation);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(rig.wrong_for(i, allocation, seed), 0u) << "GPU " << i;
  rig.memory().chunks().slow_calls().await_empty();
  rig.memory().check_invariants();
}

TEST(MigratorFailure, FindsAFullCapacityBeforeItStopsAnything) {
  MemoryLimits limits;
  limits.capacity_bytes[gpu(1)] = (2 + 5) * page_bytes;
  MoveRig rig("test-2", limits);
  const auto allocation = rig.filled(6, gpu(0), 2, 3);
  rig.forget_calls();
  const Error error =
      expect_error(ErrorKind::out_of_memory, [&] { rig.move(*allocation, gpu(1)); });
  EXPECT_TRUE(says(error, bytes_text(6 * page_bytes) + " at gpu(1)")) << error.what();
  ASSERT_NE(error.report(), nullptr);
  EXPECT_EQ(error.report()->outcome, Outcome::failed);
  EXPECT_EQ(error.report()->chunks_moved, 0);
  EXPECT_EQ(calls_that_stop(rig), 0);
  expect_untouched(rig, *allocation, 3);
}

TEST(MigratorFailure, FindsAFullDeviceBeforeItStopsAnything) {
  MoveRig rig;
  const auto allocation = rig.filled(6, gpu(0), 2, 3);
  rig.engine().prepare(gpu(0), gpu(1), 1, CopyUnder::gate);
  const std::uint64_t free_bytes = rig.machine().free_bytes(DeviceId{1});
  const Address others = rig.machine().allocate_plain(rig.context(1), free_bytes);
  rig.forget_calls();
  expect_error(ErrorKind::out_of_memory, [&] { rig.move(*allocation, gpu(1)); });
  EXPECT_EQ(calls_that_stop(rig), 0);
  rig.machine().free_plain(rig.context(1), others);
  expect_untouched(rig, *allocation, 3);
}

TEST(MigratorFailure, ReservesAllOrMovesNothing) {
  MoveRig rig;
  const auto allocation = rig.filled(8, gpu(0), 2, 3);
  MigrateOptions options;
  options.reserve_first = true;
  rig.fail({Call::create}, {2, 3});
  rig.forget_calls();
  const Error error =
      expect_error(ErrorKind::out_of_memory, [&] { rig.move(*allocation, gpu(1), options); });
  EXPECT_EQ(rig.driver().fired(), 2);
  rig.fail_nothing();
  EXPECT_EQ(calls_that_stop(rig), 0);
  ASSERT_NE(error.report(), nullptr);
  EXPECT_EQ(error.report()->chunks_moved, 0);
  EXPECT_EQ(rig.account(gpu(1)).allocated_bytes, 0u) << "what was reserved is in the cache";
  expect_untouched(rig, *allocation, 3);
  EXPECT_EQ(rig.move(*allocation, gpu(1), options).chunks_moved, 4);
}

TEST(MigratorFailure, LeavesFinishedChunksAndTellsTheTruth) {
  MoveRig rig;
  const auto allocation = rig.filled(8, gpu(0), 2, 3);
  rig.fail({Call::create}, {2, 3});  // The third target, and the retry after the cache was trimmed.
  const Error error =
      expect_error(ErrorKind::out_of_memory, [&] { rig.move(*allocation, gpu(1)); });
  rig.fail_nothing();
  ASSERT_NE(error.report(), nullptr);
  EXPECT_EQ(error.report()->outcome, Outcome::partly);
  EXPECT_EQ(error.report()->chunks, 4);
  EXPECT_EQ(error.report()->chunks_moved, 2);
  EXPECT_EQ(error.report()->bytes_moved, 4 * page_bytes);
  ASSERT_EQ(error.report()->failures.size(), 1u);
  EXPECT_EQ(error.report()->failures[0].offset, 4 * page_bytes);
  EXPECT_FALSE(error.report()->failures[0].poisoned);
  EXPECT_EQ(allocation->extents(),
            (std::vector<Extent>{{0, 4 * page_bytes, gpu(1), 1},
                                 {4 * page_bytes, 4 * page_bytes, gpu(0), 0}}));
  rig.expect_shown(*allocation);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(rig.wrong_for(i, *allocation, 3), 0u);
  check_settled(rig.memory());
  EXPECT_EQ(rig.move(*allocation, gpu(1)).chunks_moved, 2) << "and it can go on";
}

TEST(MigratorFailure, SaysThatAnAllocationIsPoisoned) {
  MoveRig rig;
  const auto allocation = rig.filled(4, gpu(0), 2, 3);
  rig.move(*allocation, gpu(1));
  rig.move(*allocation, gpu(0));  // Warms up: from here on all maps are those of the slots.
  std::set<int> all;
  for (int i = 0; i < 20; ++i) all.insert(i);
  rig.fail({Call::map}, all);
  const Error error = expect_error(ErrorKind::poisoned, [&] { rig.move(*allocation, gpu(1)); });
  rig.fail_nothing();
  ASSERT_NE(error.report(), nullptr);
  ASSERT_FALSE(error.report()->failures.empty());
  EXPECT_TRUE(error.report()->failures[0].poisoned);
  EXPECT_TRUE(allocation->poisoned());
  EXPECT_EQ(rig.wrong(*allocation, 3), 0u);
  const BoundStream stream = rig.new_stream(0);
  rig.launch_spin(stream, TimePoint(1000));
  EXPECT_TRUE(rig.machine().wait_stream(stream, never)) << "the contexts run on";
}

TEST(MigratorFailure, EndsInBusyWhenAKernelNeverEnds) {
  MoveRig rig;
  const auto allocation = rig.filled(4, gpu(0), 2, 3);
  const BoundStream stream = rig.new_stream(1);
  rig.launch_spin(stream, std::chrono::hours(1));
  MigrateOptions options;
  options.deadline = milliseconds(80);
  const TimePoint start = rig.machine().clock().now();
  const Error error =
      expect_error(ErrorKind::busy, [&] { rig.move(*allocation, gpu(1), options); });
  EXPECT_LE(rig.machine().clock().now() - start, milliseconds(120));
  ASSERT_NE(error.report(), nullptr);
  EXPECT_EQ(error.report()->outcome, Outcome::failed);
  EXPECT_EQ(error.report()->stall.count, 0) << "it waits before it stops anything";
  EXPECT_EQ(rig.memory().chunks().ledger().leaks(), 0u);
  expect_untouched(rig, *allocation, 3);
  rig.machine().wait_stream(stream, never);
  EXPECT_EQ(rig.move(*allocation, gpu(1)).chunks_moved, 2);
}

TEST(MigratorFailure, IsRefusedBeforeItEndsACaptureThatIsKnownOf) {
  MoveRig rig;
  const auto allocation = rig.filled(4, gpu(0), 2, 3);
  const BoundStream attached = rig.new_stream(1);
  rig.migrator().attached().attach(attached, Address{});
  const BoundStream blocking = rig.machine().create_stream(rig.context(1), StreamKind::blocking);
  rig.forget_calls();
  for (const BoundStream stream : {attached, blocking}) {
    rig.machine().begin_capture(stream, CaptureMode::relaxed);
    expect_error(ErrorKind::unsupported, [&] { rig.move(*allocation, gpu(1)); });
    EXPECT_EQ(calls_that_stop(rig), 0);
    GraphHandle graph{};
    ASSERT_NO_THROW(graph = rig.machine().end_capture(stream));
    rig.machine().destroy_graph(graph);
    expect_untouched(rig, *allocation, 3);
  }
  EXPECT_EQ(rig.move(*allocation, gpu(1)).chunks_moved, 2);
  rig.migrator().attached().detach(attached, Address{});
  rig.machine().destroy_stream(blocking);
}

TEST(MigratorFailure, IsRefusedWhileAStreamCaptures) {
  MoveRig rig;
  const auto allocation = rig.filled(4, gpu(0), 2, 3);
  const BoundStream stream = rig.new_stream(1);
  rig.machine().begin_capture(stream, CaptureMode::relaxed);
  expect_error(ErrorKind::unsupported, [&] { rig.move(*allocation, gpu(1)); });
  EXPECT_THROW(rig.machine().end_capture(stream), Error);
  expect_untouched(rig, *allocation, 3);
}

// The GPUs of one island cannot reach memory of the other.
TEST(MigratorFailure, ReportsWhatAMoveOutOfReachWasAskedFor) {
  MoveRig rig("test-islands");
  const auto allocation = rig.filled(8, gpu(0), 2, 3);
  const MigrationTerms terms{.choice = PlaceChoice::runtime};
  const auto expect_refused = [](const MigrationReport* report) {
    ASSERT_NE(report, nullptr);
    EXPECT_EQ(report->outcome, Outcome::failed);
    EXPECT_EQ(report->offset, 2 * page_bytes);
    EXPECT_EQ(report->chunks, 3);
    EXPECT_EQ(report->bytes_asked, 6 * page_bytes);
    EXPECT_EQ(report->chunks_moved, 0);
  };
  {
    const MoveClaim claim = MoveClaim::take(allocation);
    const Error error = expect_error(ErrorKind::unreachable, [&] {
      rig.migrator().move(*allocation, {1, 4}, gpu(2), {}, terms);
    });
    expect_refused(error.report());
  }
  for (const StopScope scope : {StopScope::hold, StopScope::attached}) {
    MigrateOptions options;
    options.scope = scope;
    const auto task = rig.migrator().submit(allocation, {1, 4}, gpu(2), options, terms);
    task->wait();
    const Error error =
        expect_error(ErrorKind::unreachable, [&] { std::rethrow_exception(task->error()); });
    expect_refused(error.report());
  }
}

class SteppedMigrator : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, SteppedMigrator, testing::Range<std::uint64_t>(1, 9));

/// Destroying any context waits for held work, and no grant of other threads returns meanwhile: the
/// hold must open and not hang. `interferes` gives the other thread the time for it.
void expect_no_hang(std::uint64_t seed, bool own_context, milliseconds deadline, Call interferes,
                    milliseconds takes) {
  step(seed, [&](const SimOptions& options) {
    MoveRig rig("test-2", {}, options);
    const auto allocation = rig.filled(4, gpu(0), 2, 3);
    if (own_context) rig.engine().own_context(DeviceId{0});
    const auto destroyer = spawn_destroyer(rig, *options.stepped, interferes, takes);
    MigrateOptions limited;
    limited.deadline = deadline;
    const TimePoint start = options.stepped->now();
    bool busy = false;
    try {
      rig.move(*allocation, gpu(1), limited);
    } catch (const Error& error) {
      busy = true;
      EXPECT_EQ(error.kind(), ErrorKind::busy) << error.what();
    }
    EXPECT_TRUE(busy) << "the other thread was in time";
    // What it takes to stop, plus the two seconds that one driver call may take.
    EXPECT_LE(options.stepped->now() - start, milliseconds(2400));
    destroyer->join();
    rig.delay(interferes, TimePoint(0));
    expect_untouched(rig, *allocation, 3);
    EXPECT_EQ(rig.move(*allocation, gpu(1)).chunks_moved, 2);
  });
}

TEST_P(SteppedMigrator, DoesNotHangWithAThreadInCtxDestroyBehindItsHold) {
  expect_no_hang(GetParam(), true, milliseconds(100), Call::copy, milliseconds(20));
}

TEST_P(SteppedMigrator, DoesNotHangWithAThreadInCtxDestroyWhereCopiesRunAhead) {
  expect_no_hang(GetParam(), false, milliseconds(2000), Call::wait_event, milliseconds(5));
}

}  // namespace
}  // namespace vma
