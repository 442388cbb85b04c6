// Goal: stops are scheduled so that all streams arrive at the same time, and the predicted skew
// matches the errors of earlier predictions. Each word arrives once, at the time when it was seen.
#include "migrate/gates/backlog.hpp"

#include "migrate/gates/enqueued_stops.hpp"

#include <gtest/gtest.h>

#include <random>

namespace vma {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

Backlog seen(std::initializer_list<int> depths_us) {
  Backlog backlog;
  for (const int depth : depths_us) backlog.saw(TimePoint(0), microseconds(depth));
  return backlog;
}

TEST(Backlog, IsKnownFromTheLastLookOn) {
  Backlog backlog;
  EXPECT_FALSE(backlog.known_since(TimePoint(-1)));
  EXPECT_EQ(backlog.depth(), nanoseconds(0));
  backlog.saw(TimePoint(100), microseconds(7));
  EXPECT_TRUE(backlog.known_since(TimePoint(100)));
  EXPECT_FALSE(backlog.known_since(TimePoint(101)));
  EXPECT_EQ(backlog.depth(), microseconds(7));
  backlog.forget();
  EXPECT_FALSE(backlog.known_since(TimePoint(0)));
}

TEST(Backlog, IsAsWrongAsItsLooksDiffer) {
  EXPECT_EQ(seen({500}).error(), nanoseconds(0));
  EXPECT_EQ(seen({500, 500, 500}).error(), nanoseconds(0));
  EXPECT_EQ(seen({500, 900}).error(), microseconds(200));
  EXPECT_EQ(seen({500, 100}).error(), microseconds(200));
  EXPECT_EQ(seen({500, 900, 900}).error(), microseconds(100));
}

TEST(Schedule, StartsTheDeepestFirstAndTheOthersToMeetIt) {
  const std::vector backlogs{seen({100}), seen({5'000}), seen({4'000}), seen({5})};
  const std::vector<StopStart> starts = schedule_stops(backlogs);
  ASSERT_EQ(starts.size(), 4u);
  EXPECT_EQ(starts[0].index, 1u);
  EXPECT_EQ(starts[0].after, nanoseconds(0));
  EXPECT_EQ(starts[1].index, 2u);
  EXPECT_EQ(starts[1].after, microseconds(1'000));
  EXPECT_EQ(starts[2].index, 0u);
  EXPECT_EQ(starts[2].after, microseconds(4'900));
  for (const int first : {0, 1, 2}) EXPECT_FALSE(starts[first].follows);
  EXPECT_EQ(starts[3].index, 3u);
  EXPECT_TRUE(starts[3].follows) << "whenever the deepest arrives, it arrives at once";
}

TEST(Schedule, TellsAllAheadIfNoneMayFollow) {
  const std::vector backlogs{seen({8}), seen({5'000})};
  ASSERT_TRUE(schedule_stops(backlogs)[1].follows);
  const std::vector<StopStart> starts = schedule_stops(backlogs, false);
  EXPECT_EQ(starts[0].index, 1u);
  EXPECT_FALSE(starts[1].follows);
  EXPECT_EQ(starts[1].after, microseconds(4'992));
}

TEST(Schedule, LetsThoseFollowThatAreLessDeepThanTheDeepestIsWrong) {
  const std::vector backlogs{seen({9'000, 5'000}), seen({1'500, 1'500}), seen({2'500, 2'500})};
  const std::vector<StopStart> starts = schedule_stops(backlogs);
  EXPECT_EQ(starts[0].index, 0u);
  EXPECT_EQ(starts[1].index, 2u);
  EXPECT_FALSE(starts[1].follows);
  EXPECT_EQ(starts[1].after, microseconds(2'500));
  EXPECT_EQ(starts[2].index, 1u);
  EXPECT_TRUE(starts[2].follows);
}

TEST(Schedule, LetsTheOthersFollowOneThatMayBeDeepAgain) {
  const std::vector backlogs{seen({8}), seen({900, 5}), seen({6})};
  const std::vector<StopStart> starts = schedule_stops(backlogs);
  EXPECT_EQ(starts[0].index, 1u);
  EXPECT_EQ(starts[0].after, nanoseconds(0));
  EXPECT_TRUE(starts[1].follows && starts[2].follows);
}

TEST(Schedule, LetsTheOthersFollowOneThatWasLateForAWhile) {
  std::vector backlogs{seen({30}), seen({5}), seen({10})};
  backlogs[1].was_late();
  int gates = 0;
  for (; backlogs[1].missed() && gates < 100; ++gates) {
    const std::vector<StopStart> starts = schedule_stops(backlogs);
    EXPECT_EQ(starts[0].index, 1u);
    EXPECT_EQ(starts[0].after, nanoseconds(0));
    EXPECT_FALSE(starts[0].follows);
    EXPECT_TRUE(starts[1].follows && starts[2].follows);
    for (Backlog& backlog : backlogs) backlog.was_in_time();
  }
  EXPECT_GT(gates, 1);
  EXPECT_LT(gates, 100);
  EXPECT_EQ(schedule_stops(backlogs)[0].index, 0u);
}

TEST(Schedule, StartsAllAtOnceWhereNothingIsDeep) {
  const std::vector backlogs{seen({5}), seen({45}), seen({20}), Backlog()};
  const std::vector<StopStart> starts = schedule_stops(backlogs);
  EXPECT_EQ(starts[0].index, 1u);
  for (const StopStart& start : starts) {
    EXPECT_EQ(start.after, nanoseconds(0));
    EXPECT_FALSE(start.follows);
  }
  EXPECT_TRUE(schedule_stops({}).empty());
}

TEST(Schedule, NamesEachStreamOnceAndInOrder) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Backlog> backlogs(random() % 20 + 1);
    for (Backlog& backlog : backlogs) backlog.saw(TimePoint(0), nanoseconds(random() % 2'000'000));
    const std::vector<StopStart> starts = schedule_stops(backlogs);
    std::vector<int> named(backlogs.size());
    nanoseconds before{0}, meeting = backlogs[starts[0].index].depth();
    for (const StopStart& start : starts) {
      ++named[start.index];
      EXPECT_GE(start.after, before);
      before = start.after;
      if (start.follows) {
        EXPECT_LE(backlogs[start.index].depth(), microseconds(50));
        continue;
      }
      // No stream arrives late, or early by more than the width of a group.
      const nanoseconds arrival = start.after + backlogs[start.index].depth();
      EXPECT_LE(arrival, meeting);
      const nanoseconds early_max = microseconds(meeting > microseconds(50) ? 10 : 50);
      EXPECT_GE(arrival, meeting - early_max);
    }
    EXPECT_EQ(named, std::vector<int>(backlogs.size(), 1));
  }
}

TEST(PredictedSkew, IsTheLargestErrorOfThoseThatShallMeet) {
  EXPECT_EQ(predict_skew(std::vector{seen({500, 9'000})}).skew, nanoseconds(0));
  EXPECT_EQ(predict_skew(std::vector{seen({5'000, 5'000}), seen({900, 900})}).skew, nanoseconds(0));
  const auto met = predict_skew(std::vector{seen({900, 900}), seen({5'000, 5'400})});
  EXPECT_EQ(met.skew, microseconds(200));
  EXPECT_EQ(met.index, 1u);
  // All of them start at once, so the difference itself counts.
  EXPECT_EQ(predict_skew(std::vector{seen({45, 45}), seen({5, 5})}).skew, microseconds(40));
}

TEST(PredictedSkew, IsThatOfTheFollowersWhereAllButOneFollow) {
  const auto idle = predict_skew(std::vector{seen({100, 900'000}), seen({5, 5})});
  EXPECT_EQ(idle.skew, microseconds(5)) << "however wrong the deepest is";
  const auto followers =
      predict_skew(std::vector{seen({100, 900'000}), seen({5, 5}), seen({200, 400})});
  EXPECT_EQ(followers.skew, microseconds(500));
  EXPECT_EQ(followers.index, 2u);
}

TEST(Arrivals, AreSeenOnceAndStay) {
  SteadyClock clock;
  Arrivals arrivals(clock, 10, 2);
  std::uint64_t one = 0, two = 0;
  arrivals.look();
  EXPECT_FALSE(arrivals.any());
  arrivals.expect(0, &one);
  arrivals.expect(1, &two);
  one = 10;
  arrivals.look();
  EXPECT_TRUE(arrivals.any());
  EXPECT_FALSE(arrivals.all());
  one = 3;  // A late write of an old gate.
  two = 11;
  arrivals.look();
  EXPECT_TRUE(arrivals.has(0));
  EXPECT_FALSE(arrivals.has(1)) << "another gate's epoch is no arrival";
  two = 10;
  arrivals.look();
  EXPECT_TRUE(arrivals.all());
  EXPECT_LE(arrivals.first(), arrivals.last());
  EXPECT_GE(*arrivals.depth(1), nanoseconds(0));
}

TEST(Arrivals, TakeWhatIsExcusedForArrivedWithoutATime) {
  SteadyClock clock;
  Arrivals arrivals(clock, 10, 2);
  std::uint64_t word = 10;
  arrivals.excuse(0);
  arrivals.excuse(0);
  EXPECT_FALSE(arrivals.any());
  EXPECT_FALSE(arrivals.all());
  arrivals.expect(1, &word);
  arrivals.look();
  EXPECT_TRUE(arrivals.all());
  EXPECT_FALSE(arrivals.depth(0));
  EXPECT_TRUE(arrivals.depth(1));
  EXPECT_EQ(arrivals.first(), arrivals.last());
}

}  // namespace
}  // namespace vma
