// Goal: a background move whose suspension comes to nothing, because a copy of the program is in
// the way, a call is late or the copies are, leaves everything as it was, lets the program go on,
// says why, and gets through afterwards. Method: moves on a stepped machine, disturbed in the
// middle of their suspensions.
#include "support/suspension_finding.hpp"
#include "unit/migrate/live/batch_rig.hpp"

#include <vma/error.hpp>
#include <vma/migration.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace vma {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
constexpr microseconds max_stall = milliseconds(500);

MigratorLimits suspending() {
  MigratorLimits limits;
  limits.suspends = true;
  return limits;
}

void expect_usable(Migrator& migrator, Clock& clock, const Topology& topology) {
  for (const DeviceId device : topology.devices()) {
    const SuspensionFinding found = decided_finding(migrator, clock, device);
    EXPECT_EQ(found.state, SuspensionFinding::State::usable) << found.why;
  }
}

struct SuspendingBatch : BatchRig {
  explicit SuspendingBatch(const SimOptions& options) : BatchRig(options, suspending()) {
    expect_usable(migrator, driver.clock(), rig.topology());
    rig.forget_calls();
  }
  /// A stream of the program goes through.
  void expect_program_runs() {
    rig.launch_spin(stream, microseconds(10));
    EXPECT_TRUE(rig.machine().wait_stream(stream, rig.machine().clock().now() + milliseconds(100)));
  }
  void expect_program_stands() {
    rig.launch_spin(stream, microseconds(10));
    sleep(rig, milliseconds(1));
    EXPECT_FALSE(rig.machine().query_stream(stream));
  }
  /// Other work comes before them in the runtime's own context.
  void delay_settlings(TimePoint duration, int times) {
    driver.before_call = [this, duration, left = times, copies = BoundStream{}](Call call,
                                                                                bool) mutable {
      const bool launches = call == Call::launch || call == Call::launch_graph;
      if (!launches || driver.launched_last.context == stream.context) return;
      if (is_none(copies.handle)) copies = driver.launched_last;
      if (driver.launched_last.handle == copies.handle || left-- <= 0) return;
      rig.launch_spin(driver.launched_last, duration);
    };
  }
  void expect_all_moved(const MigrationReport& report) {
    EXPECT_EQ(report.outcome, Outcome::done);
    EXPECT_EQ(report.chunks_moved, static_cast<int>(batch_chunks));
    driver.before_call = nullptr;
    expect_program_runs();
    expect_moved(batch_chunks);
  }
};

class SuspendedBatch : public testing::TestWithParam<std::uint64_t> {
 protected:
  static void step(const std::function<void(SuspendingBatch&, SteppedThreads&)>& body) {
    vma::step(GetParam(), [&](const SimOptions& options) {
      SuspendingBatch rig(options);
      body(rig, *options.stepped);
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Seeds, SuspendedBatch, testing::Range<std::uint64_t>(1, 5));

TEST_P(SuspendedBatch, WaitsForACopyOfTheProgramWithEverythingGoingOn) {
  step([](SuspendingBatch& rig, SteppedThreads& threads) {
    bool over = false;
    const auto copies = threads.spawn("copies", [&] {
      const CopyScope scope;
      for (int look = 0; look < 10; ++look) {
        sleep(rig.rig, milliseconds(10));
        EXPECT_EQ(rig.rig.calls(Call::suspend), 0);
        rig.expect_program_runs();
      }
      over = true;
    });
    sleep(rig.rig, milliseconds(1));
    const MigrationReport report = rig.move(gpu(1), max_stall);
    EXPECT_TRUE(over);
    copies->join();
    EXPECT_GE(report.reasons.at("copies_busy"), 1);
    EXPECT_EQ(report.stall.count, 1u) << "nothing stopped for the tries before";
    rig.expect_all_moved(report);
  });
}

/// It would wait for them: on H200, 1.7 ms for a copy of 96 MiB to the host.
TEST_P(SuspendedBatch, BeginsWithNoCopyOfTheRuntimeUnderWay) {
  step([](SuspendingBatch& rig, SteppedThreads&) {
    BoundStream copies;
    int suspensions = 0;
    rig.driver.before_call = [&](Call call, bool) {
      const BoundStream launched = rig.driver.launched_last;
      if (call == Call::launch && launched.context != rig.stream.context) {
        if (is_none(copies.handle)) copies = launched;
        if (launched.handle == copies.handle) rig.rig.launch_spin(copies, milliseconds(1));
      }
      if (call != Call::suspend) return;
      ++suspensions;
      EXPECT_TRUE(rig.rig.machine().query_stream(copies));
    };
    const MigrationReport report = rig.move(gpu(1), microseconds(1));
    EXPECT_EQ(suspensions, static_cast<int>(batch_chunks)) << "one for each chunk";
    rig.expect_all_moved(report);
  });
}

/// Kernels would take turns with those of the program. The driver lets a mapping wait for such a
/// copy.
TEST_P(SuspendedBatch, CopiesByAnEngineOnceTheTargetCanDigest) {
  step([](SuspendingBatch& rig, SteppedThreads&) {
    bool copying = false;
    int mapped = 0;
    rig.driver.before_call = [&](Call call, bool) {
      if (call == Call::copy || call == Call::wait_event) copying = call == Call::copy;
      mapped += copying && (call == Call::create || call == Call::map || call == Call::unmap);
    };
    EXPECT_EQ(rig.move(gpu(1), max_stall).outcome, Outcome::done);
    EXPECT_EQ(rig.rig.calls(Call::copy), 0) << "nothing of the runtime's was there that digests";
    sleep(rig.rig, seconds(1));
    MigrationReport report;
    for (const Place to : {gpu(0), gpu(1)}) {
      rig.rig.forget_calls();
      report = rig.move(to, max_stall);
      EXPECT_EQ(rig.rig.calls(Call::copy), static_cast<int>(batch_chunks));
      EXPECT_EQ(report.chunks_live, static_cast<int>(batch_chunks));
    }
    EXPECT_EQ(mapped, 0);
    rig.expect_all_moved(report);
  });
}

/// A driver call takes long with everything suspended and no slot dark.
TEST_P(SuspendedBatch, IsCalledOffIfTheWatchdogWasFirst) {
  step([](SuspendingBatch& rig, SteppedThreads&) {
    rig.rig.delay(Call::suspend, milliseconds(1));  // So that a grant is asked for first.
    TimePoint late{0};
    rig.driver.before_call = [&](Call call, bool stopped) {
      if (call != Call::grant || !stopped || late > TimePoint(0)) return;
      late = rig.driver.clock().now();
      rig.expect_program_stands();
      sleep(rig.rig, seconds(1));
      rig.expect_program_runs();
    };
    const MigrationReport report = rig.move(gpu(1), max_stall);
    EXPECT_GT(late, TimePoint(0));
    EXPECT_EQ(report.reasons.at("opened_by_watchdog"), 1);
    EXPECT_EQ(report.stall.count, 2u) << "it stopped in both tries";
    rig.expect_all_moved(report);
  });
}

TEST_P(SuspendedBatch, SaysWhatStoodIfEachCallIsLate) {
  step([](SuspendingBatch& rig, SteppedThreads&) {
    rig.rig.delay(Call::suspend, milliseconds(1));
    rig.driver.before_call = [&](Call call, bool stopped) {
      if (call == Call::grant && stopped) sleep(rig.rig, seconds(1));
    };
    const Error error = expect_error(ErrorKind::busy, [&] { rig.move(gpu(1), max_stall); });
    EXPECT_TRUE(says(error, "the program's work was stopped for longer than")) << error.what();
    EXPECT_FALSE(says(error, "streams were stopped")) << error.what();
    EXPECT_FALSE(says(error, "the gate was opened")) << error.what();
    rig.driver.before_call = nullptr;
    rig.expect_program_runs();
    rig.expect_moved(0);
    rig.expect_all_moved(rig.move(gpu(1), max_stall));
  });
}

/// What was written since the copies is not settled in time: other work is before it in the
/// runtime's own context.
TEST_P(SuspendedBatch, IsCalledOffIfTheSettlingIsLate) {
  step([](SuspendingBatch& rig, SteppedThreads&) {
    rig.delay_settlings(milliseconds(30), 1);
    const MigrationReport report = rig.move(gpu(1), max_stall);
    EXPECT_EQ(report.reasons.at("settle_late"), 1);
    EXPECT_GE(report.stall.count, 2u);
    rig.expect_all_moved(report);
  });
}

TEST_P(SuspendedBatch, SaysWhatStoodIfEachSettlingIsLate) {
  step([](SuspendingBatch& rig, SteppedThreads&) {
    rig.delay_settlings(seconds(1), 1000);
    const Error error = expect_error(ErrorKind::busy, [&] { rig.move(gpu(1), max_stall); });
    EXPECT_TRUE(says(error, "while the program's work was stopped")) << error.what();
    EXPECT_FALSE(says(error, "streams")) << error.what();
    rig.driver.before_call = nullptr;
    rig.expect_program_runs();
    rig.expect_moved(0);
    rig.expect_all_moved(rig.move(gpu(1), max_stall));
  });
}

/// Where a GPU would lose reach, chunks move at gates, and otherwise in suspensions, since a gate
/// would wait for the kernel; no stop serves both.
TEST_P(SuspendedBatch, ChunksOfBothStopsDoNotShareOne) {
  vma::step(GetParam(), [](const SimOptions& options) {
    MoveRig rig("test-islands", {}, options, true);
    expect_usable(rig.migrator(), rig.machine().clock(), rig.topology());
    const BoundStream stream = rig.new_stream(0);
    rig.migrator().attached().attach(stream, Address{});
    const auto near = rig.filled(2, gpu(0), 1, 7), far = rig.filled(2, gpu(0), 1, 9);
    rig.forget_calls();
    rig.launch_spin(stream, milliseconds(20));
    MigrateOptions how;
    how.max_stall = max_stall;
    std::vector<std::shared_ptr<MigrationTask>> tasks;
    for (const auto& [which, to] : {std::pair(near, gpu(1)), {far, gpu(2)}}) {
      tasks.push_back(rig.migrator().submit(which, {0, 2}, to, how));
    }
    for (const auto& task : tasks) {
      task->wait();
      EXPECT_EQ(task->error(), nullptr);
      EXPECT_EQ(task->report().chunks_moved, 2);
    }
    EXPECT_GE(rig.calls(Call::suspend), 1);
    EXPECT_LT(rig.calls(Call::suspend), 3);
    const Migrator& migrator = rig.migrator();
    EXPECT_GE(migrator.stats().stall().count + migrator.stats(StopKind::suspension).stall().count,
              2u);
    EXPECT_EQ(rig.wrong(*near, 7) + rig.wrong(*far, 9), 0u);
    rig.migrator().attached().detach(stream, Address{});
  });
}

/// Streams that are attached, and would arrive at a gate at once, save a suspension.
struct AttachedBatch : SuspendingBatch {
  explicit AttachedBatch(const SimOptions& options) : SuspendingBatch(options) {
    migrator.attached().attach(stream, Address{});
  }
  ~AttachedBatch() { migrator.attached().detach(stream, Address{}); }
  std::uint64_t stopped(StopKind kind) { return migrator.stats(kind).stall().count; }
};

class Foresight : public SuspendedBatch {};
INSTANTIATE_TEST_SUITE_P(Seeds, Foresight, testing::Range<std::uint64_t>(1, 5));

TEST_P(Foresight, MovesAtAGateThatClosesAtOnce) {
  vma::step(GetParam(), [](const SimOptions& options) {
    AttachedBatch rig(options);
    rig.rig.launch_spin(rig.stream, microseconds(100));
    const MigrationReport report = rig.move(gpu(1), max_stall);
    EXPECT_EQ(report.stop, StopKind::gate);
    EXPECT_EQ(rig.rig.calls(Call::suspend), 0);
    rig.expect_all_moved(report);
  });
}

TEST_P(Foresight, SuspendsWhereAGateWouldWaitForWork) {
  vma::step(GetParam(), [](const SimOptions& options) {
    AttachedBatch rig(options);
    rig.rig.launch_spin(rig.stream, milliseconds(50));
    const TimePoint begun = rig.driver.clock().now();
    const MigrationReport report = rig.move(gpu(1), max_stall);
    EXPECT_LT(rig.driver.clock().now() - begun, milliseconds(40)) << "it did not wait";
    EXPECT_EQ(report.stop, StopKind::suspension);
    EXPECT_EQ(rig.stopped(StopKind::gate), 0u) << "nothing stopped in vain";
    EXPECT_TRUE(rig.rig.machine().wait_stream(rig.stream, rig.driver.clock().now() + seconds(1)));
    rig.expect_all_moved(report);
  });
}

/// What neither can serve at once, a gate serves in the end.
TEST_P(Foresight, WaitsAtAGateIfTheDriverRefusesToSuspend) {
  vma::step(GetParam(), [](const SimOptions& options) {
    AttachedBatch rig(options);
    rig.rig.launch_spin(rig.stream, milliseconds(50));
    std::set<int> all;
    for (int number = 0; number < 1000; ++number) all.insert(number);
    rig.rig.fail({Call::suspend}, all);
    const MigrationReport report = rig.move(gpu(1), max_stall);
    rig.rig.fail_nothing();
    EXPECT_EQ(report.stop, StopKind::gate);
    EXPECT_GE(report.reasons.at("suspension_refused"), 1);
    rig.expect_all_moved(report);
  });
}

/// The stream is idle when the move looks at it.
TEST_P(Foresight, SuspendsAfterAGateThatItWasWrongAbout) {
  vma::step(GetParam(), [](const SimOptions& options) {
    AttachedBatch rig(options);
    bool launched = false;
    rig.driver.before_call = [&](Call call, bool) {
      const bool launches = call == Call::launch || call == Call::launch_graph;
      if (!launches || std::exchange(launched, true)) return;  // The copy of a chunk.
      rig.rig.launch_spin(rig.stream, milliseconds(50));
    };
    const TimePoint begun = rig.driver.clock().now();
    const MigrationReport report = rig.move(gpu(1), max_stall);
    EXPECT_TRUE(launched);
    EXPECT_LT(rig.driver.clock().now() - begun, milliseconds(40)) << "it did not wait";
    EXPECT_EQ(report.stop, StopKind::suspension);
    EXPECT_GE(report.reasons.at("not_arrived"), 1);
    EXPECT_TRUE(rig.rig.machine().wait_stream(rig.stream, rig.driver.clock().now() + seconds(1)));
    rig.expect_all_moved(report);
  });
}

}  // namespace
}  // namespace vma
