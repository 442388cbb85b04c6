// Goal: whole allocations and ranges reach any place with their bytes and access, and the report
// describes what was done. Method: checks with kernels on every GPU and with the driver's own view.
#include "driver/native_codes.hpp"
#include "unit/migrate/moves/move_rig.hpp"

#include "base/executor.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;

class MigratorMachines : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Machines, MigratorMachines,
                         testing::Values("test-2", "test-4", "test-islands"));

TEST_P(MigratorMachines, CarryAnAllocationEverywhereAndBack) {
  MoveRig rig(GetParam());
  const auto allocation = rig.filled(9, gpu(0), 4, 77);  // Slots of 4, 4 and 1 pages.
  const Address begin = allocation->begin();
  std::vector<Place> stops;
  for (const Place first : rig.topology().places()) {
    for (const Place second : rig.topology().places()) {
      stops.push_back(first);
      stops.push_back(second);
    }
  }
  for (const Place to : stops) {
    SCOPED_TRACE(to_string(to));
    const bool there = allocation->place(0) == to;
    const MigrationReport report = rig.move(*allocation, to);
    EXPECT_EQ(report.outcome, Outcome::done);
    EXPECT_EQ(report.chunks_moved, there ? 0 : 3);
    EXPECT_EQ(allocation->begin(), begin);
    EXPECT_EQ(allocation->extents().size(), 1u);
    EXPECT_EQ(allocation->place(2), to);
    rig.expect_shown(*allocation);
    for (const Accessor& reader : rig.topology().readers(to)) {
      EXPECT_EQ(rig.wrong_for(reader.who.ordinal, *allocation, 77), 0u) << to_string(reader.who);
    }
  }
  rig.memory().chunks().slow_calls().await_empty();
  rig.memory().check_invariants();
}

TEST(Migrator, ReportsWhatItDid) {
  MoveRig rig("h200x2");
  const auto allocation = rig.alloc(8, gpu(0), 2);
  const MigrationReport report = rig.move(*allocation, gpu(1));
  EXPECT_EQ(report.outcome, Outcome::done);
  EXPECT_EQ(report.bytes_asked, 8 * rig.page());
  EXPECT_EQ(report.bytes_moved, 8 * rig.page());
  EXPECT_EQ(report.bytes_copied_twice, 0u);
  EXPECT_EQ(report.chunks, 4);
  EXPECT_EQ(report.chunks_moved, 4);
  EXPECT_EQ(report.retries, 0);
  EXPECT_EQ(report.route, "gpu(0)->gpu(1)");
  EXPECT_TRUE(report.failures.empty());
  for (const auto phase :
       {report.phases.cache, report.phases.wait, report.phases.copy, report.phases.unmap,
        report.phases.map, report.phases.grant, report.dark_max, report.stall.max}) {
    EXPECT_GT(phase.count(), 0);
    EXPECT_LE(phase, report.wall);
  }
  EXPECT_LE(report.dark_max, report.stall.max);
  EXPECT_EQ(rig.migrator().migrations(), 1u);
  EXPECT_EQ(rig.migrator().bytes_moved(), 8 * rig.page());
}

TEST(Migrator, MovesARangeAndNothingElse) {
  MoveRig rig;
  const auto allocation = rig.filled(9, gpu(0), 2, 3);
  const MigrationReport report = rig.move(*allocation, {1, 3}, gpu(1));
  EXPECT_EQ(report.chunks, 2);
  EXPECT_EQ(report.bytes_asked, 4 * rig.page());
  EXPECT_EQ(allocation->extents(),
            (std::vector<Extent>{{0, 2 * rig.page(), gpu(0), 0},
                                 {2 * rig.page(), 4 * rig.page(), gpu(1), 1},
                                 {6 * rig.page(), 3 * rig.page(), gpu(0), 0}}));
  EXPECT_EQ(rig.wrong_for(0, *allocation, 3), 0u);
  const MigrationReport tail = rig.move(*allocation, {4, 5}, host(0));
  EXPECT_EQ(tail.bytes_moved, rig.page());
  EXPECT_EQ(rig.wrong_for(1, *allocation, 3), 0u);
}

TEST(Migrator, GathersFromSeveralPlacesAndCountsOnlyWhatMoved) {
  MoveRig rig;
  const auto allocation = rig.filled(8, gpu(0), 2, 3);
  rig.move(*allocation, {1, 2}, host(0));
  rig.move(*allocation, {2, 3}, gpu(1));
  const MigrationReport report = rig.move(*allocation, gpu(1));
  EXPECT_EQ(report.route, "gpu(0)->gpu(1), host(0)->gpu(1)");
  EXPECT_EQ(report.chunks, 4);
  EXPECT_EQ(report.chunks_moved, 3);
  EXPECT_EQ(report.bytes_asked, 8 * rig.page());
  EXPECT_EQ(report.bytes_moved, 6 * rig.page());
  EXPECT_EQ(rig.wrong_for(0, *allocation, 3), 0u);
}

TEST(Migrator, StopsNothingForWhatIsThereAlready) {
  MoveRig rig;
  const auto allocation = rig.filled(4, gpu(0), 2, 3);
  rig.forget_calls();
  const MigrationReport report = rig.move(*allocation, gpu(0));
  EXPECT_EQ(report.outcome, Outcome::done);
  EXPECT_EQ(report.chunks, 2);
  EXPECT_EQ(report.chunks_moved, 0);
  EXPECT_EQ(report.bytes_moved, 0u);
  EXPECT_EQ(report.route, "");
  EXPECT_TRUE(rig.trace().empty());
}

TEST(Migrator, HoldsEveryContextOnceForAllChunks) {
  MoveRig rig("test-4");
  const auto allocation = rig.filled(16, gpu(0), 1, 3);
  rig.forget_calls();
  rig.move(*allocation, gpu(1));
  EXPECT_EQ(rig.calls(Call::hold_context), 4);
  EXPECT_EQ(rig.calls(Call::record_context), 2 * 4) << "once before, with nothing stopped";
}

TEST(Migrator, MakesNothingFromAWarmCache) {
  MoveRig rig;
  const auto allocation = rig.filled(8, gpu(0), 2, 3);
  rig.move(*allocation, gpu(1));
  rig.move(*allocation, gpu(0));
  rig.forget_calls();
  rig.move(*allocation, gpu(1));
  for (const Call call : {Call::create, Call::release, Call::reserve, Call::create_event,
                          Call::create_own_context, Call::create_stream}) {
    EXPECT_EQ(rig.calls(call), 0) << to_string(call);
  }
  EXPECT_EQ(rig.calls(Call::unmap), 4);
  EXPECT_EQ(rig.calls(Call::map), 4);
}

TEST(Migrator, TakesTheCallersWordThatNothingRuns) {
  MoveRig rig;
  const auto allocation = rig.filled(4, gpu(0), 2, 3);
  MigrateOptions options;
  options.nothing_runs = true;
  rig.forget_calls();
  EXPECT_EQ(rig.move(*allocation, gpu(1), options).chunks_moved, 2);
  EXPECT_EQ(rig.calls(Call::hold_context) + rig.calls(Call::record_context), 0);
  EXPECT_EQ(rig.wrong_for(0, *allocation, 3), 0u);
}

/// A driver too old for context holds.
class NoHoldDriver : public InterceptDriver {
 public:
  using InterceptDriver::InterceptDriver;
  bool has_context_hold() const override { return false; }

 private:
  void around(Call, const std::function<void()>& body) override { body(); }
};

TEST(Migrator, SaysThatTheDriverCannotHold) {
  MoveRig rig;
  NoHoldDriver driver(rig.driver());
  Memory memory(driver, rig.topology(), {});
  CopyEngine engine(driver, rig.topology(), memory.contexts(), memory.chunks().ledger(),
                    memory.chunks().slow_calls().turn());
  Migrator migrator(memory, engine, MigratorLimits{.hold_limit = milliseconds(100)});
  const auto allocation = memory.alloc(rig.page(), gpu(0), {});
  const Error error = expect_error(ErrorKind::unsupported, [&] {
    migrator.move(*allocation, {0, 1}, gpu(1), {});
  });
  EXPECT_TRUE(says(error, "nothing_runs"));
  MigrateOptions vouched;
  vouched.nothing_runs = true;
  EXPECT_EQ(migrator.move(*allocation, {0, 1}, gpu(1), vouched).chunks_moved, 1);
  memory.free(allocation->begin());
}

TEST(Migrator, IsCancelledByAFreeThatWaits) {
  MoveRig rig;
  const auto allocation = rig.filled(4, gpu(0), 2, 3);
  allocation->being_freed = true;
  const MigrationReport report = rig.move(*allocation, gpu(1));
  EXPECT_EQ(report.outcome, Outcome::cancelled);
  EXPECT_EQ(report.chunks_moved, 0);
  EXPECT_EQ(allocation->place(0), gpu(0));
  allocation->being_freed = false;
  EXPECT_EQ(rig.wrong_for(1, *allocation, 3), 0u);
}

TEST(Migrator, TouchesNothingOfMemoryThatWasFreedBefore) {
  MoveRig rig;
  const auto freed = rig.filled(4, gpu(0), 2, 3);
  rig.free(freed);
  rig.forget_calls();
  EXPECT_EQ(rig.move(*freed, gpu(1)).outcome, Outcome::cancelled);
  EXPECT_TRUE(rig.trace().empty()) << "the cache has its chunks";
  const auto next = rig.filled(4, gpu(0), 2, 5);
  ASSERT_EQ(next->begin(), freed->begin()) << "the cache gives out what was freed";
  EXPECT_EQ(rig.move(*freed, gpu(1)).outcome, Outcome::cancelled);
  EXPECT_EQ(next->place(0), gpu(0));
}

TEST(Migrator, FreeWaitsForTheContextsOfAttachedStreams) {
  step(1, [](const SimOptions& options) {
    MoveRig rig("test-2", {}, options);
    const OwnContextStream own(rig);
    const auto allocation = rig.alloc(2, gpu(0));
    const TimePoint begin = rig.machine().clock().now();
    rig.launch_spin(own.stream, std::chrono::seconds(60));
    rig.free(allocation);
    EXPECT_GE(rig.machine().clock().now() - begin, std::chrono::seconds(60));
    EXPECT_TRUE(rig.machine().query_stream(own.stream)) << "work of it may still use the memory";
  });
}

TEST(Migrator, ForgetsTheStreamsOfAnAllocationThatIsFreed) {
  MoveRig rig;
  AttachedStreams& attached = rig.migrator().attached();
  const auto allocation = rig.alloc(2, gpu(0));
  const Address begin = allocation->begin();
  attached.attach(rig.new_stream(0), begin);
  ASSERT_TRUE(attached.any(begin));
  rig.free(allocation);
  EXPECT_FALSE(attached.any(begin)) << "the next allocation there would stop a stranger's stream";
}

TEST(Migrator, MovesManyAllocationsFromManyThreads) {
  MoveRig rig("test-4");
  ThreadedExecutor executor;
  std::vector<std::unique_ptr<Task>> tasks;
  std::vector<std::shared_ptr<Allocation>> allocations;
  for (std::uint64_t i = 0; i < 4; ++i) allocations.push_back(rig.filled(5, gpu(0), 2, i << 20));
  for (std::size_t i = 0; i < 4; ++i) {
    tasks.push_back(executor.spawn("migrator", [&, i] {
      for (int round = 0; round < 8; ++round) {
        const auto& places = rig.topology().places();
        rig.move(*allocations[i], places[(i + static_cast<std::size_t>(round)) % places.size()]);
      }
    }));
  }
  for (const auto& task : tasks) task->join();
  for (std::size_t i = 0; i < 4; ++i) {
    rig.expect_shown(*allocations[i]);
    EXPECT_EQ(rig.wrong(*allocations[i], i << 20), 0u);
  }
  rig.memory().chunks().slow_calls().await_empty();
  rig.memory().check_invariants();
}

}  // namespace
}  // namespace vma
