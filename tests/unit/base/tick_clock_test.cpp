// Goal: stamps convert to the times at which they were taken, in order, with or without a hardware
// counter. Method: compares with clock readings around each stamp; the case without a counter uses
// a clock of the test.
#include "base/clock.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace vma {
namespace {

class OwnClock : public Clock {
 public:
  TimePoint now() const override { return time; }
  std::chrono::steady_clock::time_point wake_time(TimePoint) const override { return {}; }
  TimePoint time{0};
};

TEST(TickClock, ADeadlineBeyondTheEndOfTimeIsNever) {
  constexpr TimePoint now = std::chrono::hours(1);
  EXPECT_EQ(later(now, TimePoint(5)), now + TimePoint(5));
  EXPECT_EQ(later(now, never - now), never);
  EXPECT_EQ(later(now, never), never);
  EXPECT_EQ(later(now, std::chrono::milliseconds(5)), now + std::chrono::milliseconds(5));
  EXPECT_EQ(later(now, std::chrono::milliseconds::max()), never);
}

TEST(TickClock, StampsHaveTheTimesAtWhichTheyWereTaken) {
  struct Taken {
    TimePoint before{0}, after{0};
    std::int64_t stamp = 0;
  };
  const SteadyClock clock;
  TickClock ticks(clock);
  for (int drain = 0; drain < 20; ++drain) {
    std::vector<Taken> all;
    for (int i = 0; i < 200; ++i) {
      Taken& taken = all.emplace_back();
      taken.before = clock.now();
      taken.stamp = ticks.stamp();
      taken.after = clock.now();
    }
    ticks.compare();
    TimePoint last{0};
    for (const Taken& taken : all) {
      // The thread may be preempted between reading the counter and reading the clock.
      constexpr std::chrono::milliseconds error(5);
      const TimePoint time = ticks.time_of(taken.stamp);
      EXPECT_GE(time, taken.before - error);
      EXPECT_LE(time, taken.after + error);
      EXPECT_GE(time, last);
      EXPECT_LE(time, clock.now());
      last = time;
    }
  }
}

TEST(TickClock, AreTheTimesOfAClockThatIsNotTheProcessors) {
  OwnClock clock;
  clock.time = TimePoint(5);
  TickClock ticks(clock);
  EXPECT_FALSE(ticks.by_counter());
  const std::int64_t stamp = ticks.stamp();
  clock.time = TimePoint(1'000'000);
  ticks.compare();
  EXPECT_EQ(ticks.time_of(stamp), TimePoint(5));
}

}  // namespace
}  // namespace vma
