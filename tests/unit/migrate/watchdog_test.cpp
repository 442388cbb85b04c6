// Goal: what is armed and not disarmed runs once, at its deadline, from another thread; what is
// disarmed never does. Method: a stepped machine, so that time is virtual.
#include "migrate/watchdog.hpp"

#include "machine/machine_file.hpp"
#include "sim/sim_driver.hpp"
#include "sim/stepped_executor.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace vma {
namespace {

using std::chrono::milliseconds;

class WatchdogTest : public testing::TestWithParam<std::uint64_t> {
 protected:
  void step(const std::function<void(SimDriver&, SteppedExecutor&)>& body) {
    SteppedExecutor executor({GetParam(), 2});
    SimOptions options;
    options.stepped = &executor;
    executor.run([&] {
      SimDriver machine(load_machine("test-2"), options);
      body(machine, executor);
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Seeds, WatchdogTest, testing::Range<std::uint64_t>(1, 9));

TEST_P(WatchdogTest, RunsOnceWhenTheDeadlineHasPassed) {
  step([](SimDriver& machine, SteppedExecutor& executor) {
    Watchdog watchdog(machine);
    int late = 0;
    const TimePoint deadline = executor.now() + milliseconds(5);
    TimePoint when{0};
    watchdog.arm(deadline, [&] { ++late, when = executor.now(); });
    executor.sleep(milliseconds(4));
    EXPECT_EQ(late, 0);
    executor.sleep(milliseconds(100));
    EXPECT_EQ(late, 1);
    EXPECT_GE(when, deadline);
    EXPECT_LE(when, deadline + milliseconds(1));
  });
}

TEST_P(WatchdogTest, DoesNotRunWhatWasDisarmed) {
  step([](SimDriver& machine, SteppedExecutor& executor) {
    Watchdog watchdog(machine);
    int late = 0;
    for (int round = 0; round < 5; ++round) {
      watchdog.arm(executor.now() + milliseconds(5), [&] { ++late; });
      executor.sleep(milliseconds(3));
      watchdog.disarm();
    }
    executor.sleep(milliseconds(100));
    EXPECT_EQ(late, 0);
  });
}

TEST_P(WatchdogTest, TakesAnEarlierDeadlineAfterALaterOne) {
  step([](SimDriver& machine, SteppedExecutor& executor) {
    Watchdog watchdog(machine);
    int first = 0, second = 0;
    watchdog.arm(executor.now() + milliseconds(1000), [&] { ++first; });
    watchdog.disarm();
    watchdog.arm(executor.now() + milliseconds(2), [&] { ++second; });
    executor.sleep(milliseconds(10));
    EXPECT_EQ(first, 0);
    EXPECT_EQ(second, 1);
    watchdog.arm(executor.now() + milliseconds(2), [&] { ++first; });  // After one that ran.
    executor.sleep(milliseconds(10));
    EXPECT_EQ(first, 1);
  });
}

TEST_P(WatchdogTest, EndsWhileItIsArmed) {
  step([](SimDriver& machine, SteppedExecutor& executor) {
    int late = 0;
    {
      Watchdog watchdog(machine);
      watchdog.arm(executor.now() + milliseconds(5), [&] { ++late; });
    }
    executor.sleep(milliseconds(50));
    EXPECT_EQ(late, 0);
  });
}

}  // namespace
}  // namespace vma
