// Goal: a suspension that is refused has not begun, the watchdog ends one that is late whatever
// came before, a resume that fails delays nothing else, and decorators know how long it lasts.
// Method: its steps on stepped machines.
#include "migrate/stops/suspension.hpp"
#include "support/drivers/permitted_driver.hpp"
#include "unit/migrate/moves/move_rig.hpp"

#include <vma/error.hpp>
#include <vma/migration.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <set>

namespace vma {
namespace {

using std::chrono::milliseconds;

std::set<int> every_call() {
  std::set<int> numbers;
  for (int number = 0; number < 100'000; ++number) numbers.insert(number);
  return numbers;
}

struct StepsOfOne : MoveRig {
  explicit StepsOfOne(const SimOptions& options)
      : MoveRig("test-2", {}, options),
        watchdog(driver()),
        suspension(driver(), watchdog, topology().devices(), milliseconds(10)) {}

  void close() { suspension.close(machine().clock().now() + milliseconds(1)); }

  Watchdog watchdog;
  Suspension suspension;
};

/// A thread that is late behind a dark slot may be late again.
TEST(SuspensionStates, TheWatchdogStillWatchesAfterADarkSlot) {
  step(1, [](const SimOptions& options) {
    StepsOfOne rig(options);
    rig.close();
    rig.suspension.begin_dark();
    sleep(rig, milliseconds(30));
    rig.suspension.end_dark();
    rig.suspension.alive();
    rig.suspension.begin_dark();
    rig.suspension.end_dark();
    sleep(rig, milliseconds(30));
    expect_error(ErrorKind::busy, [&] { rig.suspension.begin_dark(); });
    rig.suspension.open();
  });
}

/// Others wait for the watchdog's thread, too.
TEST(SuspensionStates, AResumeThatFailsKeepsTheWatchdogFromNothingElse) {
  step(1, [](const SimOptions& options) {
    StepsOfOne rig(options);
    rig.close();
    rig.fail({Call::resume}, every_call());
    const TimePoint due = rig.machine().clock().now() + milliseconds(50);
    TimePoint ran{0};
    rig.watchdog.arm(due, [&] { ran = rig.machine().clock().now(); });
    sleep(rig, milliseconds(100));
    EXPECT_GE(ran, due);
    EXPECT_LT(ran, due + milliseconds(5));
    expect_error(ErrorKind::busy, [&] { rig.suspension.begin_dark(); });
    rig.fail_nothing();
    sleep(rig, milliseconds(5));
    const BoundStream stream = rig.new_stream(0);
    rig.launch_spin(stream, milliseconds(1));
    EXPECT_TRUE(rig.machine().wait_stream(stream, rig.machine().clock().now() + milliseconds(5)));
  });
}

TEST(SuspensionStates, ARefusedOneHasNotBegunAndMayBeClosedAgain) {
  step(1, [](const SimOptions& options) {
    StepsOfOne rig(options);
    rig.fail({Call::suspend}, {0});
    expect_error(ErrorKind::driver_failure, [&] { rig.close(); });
    EXPECT_TRUE(rig.suspension.refused());
    EXPECT_EQ(rig.suspension.begun(), TimePoint(0)) << "counts as a stall";
    { const CopyScope scope; }
    rig.close();
    EXPECT_FALSE(rig.suspension.refused());
    EXPECT_GT(rig.suspension.begun(), TimePoint(0));
    rig.suspension.open();
  });
}

/// From `note_stopped` decorators know which calls must not be made.
TEST(SuspensionStates, TellTheDriverExactlyWhileItLasts) {
  step(1, [](const SimOptions& options) {
    MoveRig rig("test-2", {}, options);
    PermittedDriver permitted(rig.driver());
    Watchdog watchdog(permitted);
    const auto violations = [&] {
      permitted.destroy_stream(permitted.create_stream(rig.context(0), StreamKind::non_blocking));
      return permitted.violations().size();
    };
    for (const bool refused : {true, false}) {
      Suspension suspension(permitted, watchdog, rig.topology().devices(), milliseconds(10));
      EXPECT_EQ(violations(), 0u);
      if (refused) rig.fail({Call::suspend}, {0});
      try {
        suspension.close(rig.machine().clock().now() + milliseconds(1));
      } catch (const Error&) {
        EXPECT_EQ(violations(), 0u);
        continue;
      }
      sleep(rig, milliseconds(30));  // The watchdog ends it.
      EXPECT_EQ(violations(), 0u);
      suspension.open();
      suspension.close(rig.machine().clock().now() + milliseconds(1));
      EXPECT_EQ(violations(), 2u);
    }
    EXPECT_EQ(violations(), 2u);
  });
}

}  // namespace
}  // namespace vma
