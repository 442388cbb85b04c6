// Goal: no window of one second spends more on stops or copies than the budget and one stop; the
// budget is also used up. Method: random stops, and every window that could be the worst.
#include "migrate/stops/stall_budget.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

namespace vma {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

struct Stop {
  TimePoint closed, opened;
};

/// Stalls between 50 us and 4 ms, either as soon as the budget allows or a while later.
std::vector<Stop> random_stops(StallBudget& budget, std::uint64_t seed, bool eager) {
  std::mt19937_64 random(seed);
  std::vector<Stop> stops;
  TimePoint now = seconds(random() % 1000);
  for (int i = 0; i < 400; ++i) {
    if (!eager && random() % 4 == 0) now += microseconds(random() % 300000);
    now = budget.next_stop(now);
    const nanoseconds stall = microseconds(50 + random() % 3950);
    stops.push_back({now, now + stall});
    budget.spent_stall(now, stall);
    now += stall;
  }
  return stops;
}

nanoseconds stopped(const std::vector<Stop>& stops, TimePoint begin, TimePoint end) {
  nanoseconds sum{0};
  for (const Stop& stop : stops) {
    sum += std::max(nanoseconds(0), std::min(stop.opened, end) - std::max(stop.closed, begin));
  }
  return sum;
}

/// The longest stall within any second: the worst window begins or ends with a stop.
nanoseconds worst_second(const std::vector<Stop>& stops) {
  nanoseconds worst{0};
  for (const Stop& stop : stops) {
    worst = std::max({worst, stopped(stops, stop.closed, stop.closed + seconds(1)),
                      stopped(stops, stop.opened - seconds(1), stop.opened)});
  }
  return worst;
}

TEST(StallBudget, NoSecondSpendsMoreThanTheBudgetAndOneStop) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (const auto per_second : {milliseconds(1), milliseconds(60), milliseconds(400)}) {
      SCOPED_TRACE(seed);
      StallBudget budget(per_second, 0);
      const std::vector<Stop> stops = random_stops(budget, seed, seed % 2 == 0);
      EXPECT_LE(worst_second(stops), per_second + milliseconds(4)) << per_second.count() << " ms";
    }
  }
}

TEST(StallBudget, WhoStopsAsOftenAsAllowedHasNearlyAllOfIt) {
  StallBudget budget(milliseconds(60), 0);
  const std::vector<Stop> stops = random_stops(budget, 7, true);
  const nanoseconds wall = budget.next_stop(stops.back().opened) - stops.front().closed;
  const nanoseconds sum = stopped(stops, TimePoint(0), never);
  EXPECT_GE(static_cast<double>(sum.count()), 0.0599 * static_cast<double>(wall.count()));
}

TEST(StallBudget, ABurstMayUseUpTheBudgetOfASecond) {
  StallBudget budget(milliseconds(10), 0);
  TimePoint now = seconds(5);
  for (int stop = 0; stop < 5; ++stop) {
    EXPECT_EQ(budget.next_stop(now), now) << stop;
    budget.spent_stall(now, milliseconds(2));
    now += milliseconds(3);
  }
  EXPECT_EQ(budget.next_stop(now), now) << "the second has not spent more than its budget";
  budget.spent_stall(now, milliseconds(2));
  // Then the second before it contains only five of the six stops.
  EXPECT_EQ(budget.next_stop(now), seconds(6) + milliseconds(2));
}

TEST(StallBudget, AStopLongerThanTheBudgetIsPaidForByTheTimeFromItsBegin) {
  StallBudget budget(milliseconds(1), 0);
  budget.spent_stall(seconds(5), milliseconds(4));
  EXPECT_EQ(budget.next_stop(seconds(6)), seconds(8));
  EXPECT_EQ(budget.next_stop(seconds(9)), seconds(9));
  budget.spent_stall(seconds(6), milliseconds(1));
  EXPECT_EQ(budget.next_stop(seconds(6)), seconds(9)) << "came early: adds up";
}

TEST(StallBudget, ZeroIsNoLimitAndTheTwoBudgetsAreApart) {
  StallBudget none({}, 0);
  none.spent_stall(seconds(1), seconds(1));
  EXPECT_TRUE(none.try_book_copy(seconds(1), std::uint64_t{1} << 60));
  EXPECT_EQ(none.next_stop(seconds(1)), seconds(1));
  EXPECT_EQ(none.next_copy(seconds(1), {}), seconds(1));
  StallBudget copies({}, 1000);
  copies.spent_stall(seconds(1), seconds(1));
  EXPECT_TRUE(copies.try_book_copy(seconds(1), 500));
  EXPECT_EQ(copies.next_stop(seconds(1)), seconds(1));
  EXPECT_EQ(copies.next_copy(seconds(1), {}), seconds(1) + milliseconds(500));
}

TEST(StallBudget, NoSecondCopiesMoreThanTheBudgetAndOneChunk) {
  constexpr std::uint64_t per_second = std::uint64_t{10} << 30, chunk_max = 256 << 20;
  std::mt19937_64 random(11);
  StallBudget budget({}, per_second);
  std::vector<std::pair<TimePoint, std::uint64_t>> copies;
  TimePoint now{0};
  for (int i = 0; i < 400; ++i) {
    now = budget.next_copy(now + microseconds(random() % 3 * 1000), {});
    copies.emplace_back(now, 1 + random() % chunk_max);
    EXPECT_TRUE(budget.try_book_copy(now, copies.back().second));
  }
  for (const auto& [begin, first] : copies) {
    std::uint64_t sum = 0;
    for (const auto& [at, bytes] : copies) {
      if (at >= begin && at < begin + seconds(1)) sum += bytes;
    }
    EXPECT_LE(sum, per_second + chunk_max);
  }
}

TEST(StallBudget, AnEndlessStallIsPaidForInFiniteTime) {
  StallBudget budget(nanoseconds(1), 1);
  budget.spent_stall(seconds(1), nanoseconds::max());
  EXPECT_TRUE(budget.try_book_copy(seconds(1), ~std::uint64_t{0}));
  EXPECT_GT(budget.next_stop({}), seconds(60));
  EXPECT_LT(budget.next_stop({}), std::chrono::hours(2));
  EXPECT_LT(budget.next_copy({}, {}), std::chrono::hours(2));
}

TEST(StallBudget, ACopyBeginsSoThatItEndsWhenTheNextStopIsAllowed) {
  StallBudget pace(milliseconds(100), 0);
  pace.spent_stall(seconds(1), milliseconds(200));
  const TimePoint next = pace.next_stop(seconds(1));
  ASSERT_GT(next, seconds(2));
  EXPECT_EQ(pace.next_copy(seconds(1), milliseconds(20)), next - milliseconds(20));
  pace.allow_ahead(seconds(1));
  EXPECT_EQ(pace.next_copy(seconds(1), {}), seconds(1));
}

TEST(StallBudget, EachCopyIsPaidForByTheOnesBehindIt) {
  StallBudget pace({}, 1000);
  ASSERT_TRUE(pace.try_book_copy(seconds(1), 1000));
  EXPECT_EQ(pace.next_copy(seconds(1), {}), seconds(2));
  ASSERT_TRUE(pace.try_book_copy(seconds(2), 500));
  EXPECT_EQ(pace.next_copy(seconds(2), {}), seconds(2) + milliseconds(500));
}

TEST(StallBudget, ACopyThatMustBeginNowIsBookedOnlyIfTheBudgetAllowsIt) {
  StallBudget pace(milliseconds(1), 1000);
  pace.spent_stall(seconds(1), seconds(1));
  EXPECT_TRUE(pace.try_book_copy(seconds(1), 1000)) << "the budget for stops does not matter";
  EXPECT_FALSE(pace.try_book_copy(seconds(1), 1));
  EXPECT_TRUE(pace.try_book_copy(seconds(2), 1)) << "a refused copy is not charged";
}

/// When a stop of `stall` may come, each as soon as it is allowed, from `begin` on.
std::vector<TimePoint> stops_of(StallBudget& budget, TimePoint begin, nanoseconds stall,
                                std::size_t count) {
  std::vector<TimePoint> times;
  TimePoint now = begin;
  for (std::size_t i = 0; i < count; ++i) {
    now = budget.next_stop(now);
    times.push_back(now);
    budget.spent_stall(now, stall);
    now += stall;
  }
  return times;
}

// 60 ms a second, and 240 ms ahead: 300 ms of stops and the last one come without a pause.
TEST(StallBudget, MayBeOverdrawnByWhatIsAllowed) {
  StallBudget budget(milliseconds(60), 0);
  budget.allow_ahead(milliseconds(240));
  const auto times = stops_of(budget, seconds(10), milliseconds(2), 152);
  EXPECT_EQ(times[150], seconds(10) + 150 * milliseconds(2));
  EXPECT_GT(times[151], times[150] + milliseconds(2));
}

// What was spent ahead is paid back at 60 ms a second: no stop before it is.
TEST(StallBudget, IsPaidBackOnceNothingIsAllowedAheadAnyMore) {
  StallBudget budget(milliseconds(60), 0);
  budget.allow_ahead(milliseconds(240));
  stops_of(budget, seconds(10), milliseconds(2), 150);
  budget.allow_ahead(nanoseconds(0));
  const TimePoint paid = seconds(10) + seconds(5);  // 300 ms.
  const TimePoint next = budget.next_stop(seconds(10) + milliseconds(300));
  EXPECT_GE(next, paid - seconds(1));
  EXPECT_LE(next, paid - seconds(1) + microseconds(1));
}

TEST(StallBudget, WithoutALimitNothingIsSpentAhead) {
  StallBudget budget(nanoseconds(0), 0);
  budget.allow_ahead(milliseconds(240));
  EXPECT_EQ(budget.next_stop(seconds(3)), seconds(3));
}

}  // namespace
}  // namespace vma
