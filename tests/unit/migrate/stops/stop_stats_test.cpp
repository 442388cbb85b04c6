// Goal: summaries are exact to the width of a bin and every value is counted. Method: compares with
// the sorted durations.
#include "migrate/stops/stop_stats.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace vma {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

nanoseconds exact(std::vector<nanoseconds> sorted, double share) {
  std::ranges::sort(sorted);
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[static_cast<std::size_t>(rank) - 1];
}

void expect_near(nanoseconds value, nanoseconds right) {
  EXPECT_NEAR(static_cast<double>(value.count()), static_cast<double>(right.count()),
              0.03 * static_cast<double>(right.count()));
}

TEST(StopStats, SummariesAreRightToTheWidthOfABin) {
  for (const double median_us : {5.0, 300.0, 80000.0}) {
    std::mt19937_64 random(1);
    std::lognormal_distribution<double> lengths(std::log(median_us * 1000), 0.5);
    StopStats stats;
    std::vector<nanoseconds> all;
    for (int i = 0; i < 5000; ++i) {
      all.emplace_back(static_cast<nanoseconds::rep>(lengths(random)));
      stats.add_stall(all.back());
      const DurationSummary now = stats.stall();
      ASSERT_EQ(now.count, all.size());
      ASSERT_EQ(now.max, std::ranges::max(all));
      if (i % 500 != 0) continue;
      expect_near(now.median, exact(all, 0.5));
      expect_near(now.p99, exact(all, 0.99));
    }
    EXPECT_EQ(stats.skew().count, 0u) << "the two are apart";
  }
}

TEST(StopStats, NothingAddedIsNothing) {
  const StopStats stats;
  EXPECT_EQ(stats.skew().count, 0u);
  EXPECT_EQ(stats.skew().median, nanoseconds(0));
  EXPECT_EQ(stats.stall().max, nanoseconds(0));
  EXPECT_TRUE(stats.refusals().empty());
}

TEST(StopStats, DurationsOutsideTheBinsCountAtTheEnds) {
  StopStats stats;
  stats.add_skew(nanoseconds(0));
  EXPECT_EQ(stats.skew().median, nanoseconds(0));
  stats.add_skew(nanoseconds(20));
  EXPECT_EQ(stats.skew().median, nanoseconds(20)) << "no more than the maximum";
  for (int i = 0; i < 10; ++i) stats.add_skew(seconds(100 + i));
  EXPECT_EQ(stats.skew().count, 12u);
  EXPECT_EQ(stats.skew().median, seconds(109));
  EXPECT_EQ(stats.skew().max, seconds(109));
}

TEST(StopStats, CountsRefusalsByKindAndNoneAsNothing) {
  StopStats stats;
  stats.add_refusal(StopRefusal::none);
  EXPECT_TRUE(stats.refusals().empty());
  stats.add_refusal(StopRefusal::settle_late);
  stats.add_refusal(StopRefusal::settle_late);
  stats.add_refusal(StopRefusal::stream_lost);
  const std::map<StopRefusal::Why, std::uint64_t> expected = {{StopRefusal::settle_late, 2},
                                                              {StopRefusal::stream_lost, 1}};
  EXPECT_EQ(stats.refusals(), expected);
}

TEST(StopStats, EveryRefusalHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(StopRefusal::suspension_refused); ++i) {
    const std::string_view name = to_string(static_cast<StopRefusal::Why>(i));
    EXPECT_NE(name, "unknown");
    EXPECT_TRUE(names.insert(name).second) << name;
  }
}

TEST(StopStats, ThreadsAddAtOnce) {
  StopStats all;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&all] {
      for (int i = 0; i < 1000; ++i) {
        all.add_skew(microseconds(i));
        all.add_refusal(StopRefusal::capture);
        all.add_stall(microseconds(i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(all.skew().count, 4000u);
  EXPECT_EQ(all.stall().count, 4000u);
  EXPECT_EQ(all.refusals().at(StopRefusal::capture), 4000u);
}

}  // namespace
}  // namespace vma
