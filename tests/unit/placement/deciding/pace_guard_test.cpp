// Goal: moves of a policy go on as long as the program is faster with them, and stop otherwise,
// within the stated time. Method: a program in virtual time whose pace depends on what moves.

#include "placement/deciding/pace_guard.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>

namespace vma {
namespace {

using namespace std::chrono_literals;

/// A program that is looked at every millisecond, and a policy that always wants to move.
class Course {
 public:
  explicit Course(const PaceLimits& limits = {}) : guard(limits) {}

  /// `pace`: progress per millisecond while something moves or not.
  void run(Time time, const std::function<double(bool moving)>& pace) {
    for (const Time end = now + time; now < end; now += 1ms) step(pace(moving));
  }
  /// The program launches so much within 10 ms, and again when it is done; with `ahead`, already
  /// when what it launched before that is done.
  void run_in_bursts(Time time, double launch, bool ahead,
                     const std::function<double(bool moving)>& pace) {
    double left = 0;
    int reports = 0;
    for (const Time end = now + time; now < end; now += 1ms) {
      if (reports == 0 && left <= (ahead ? launch : 0)) {
        left += launch;
        reports = 10;
      }
      left -= pace(moving);
      step(reports > 0 ? launch / 10 : 0);
      reports = std::max(reports - 1, 0);
    }
  }
  void step(double part) {
    done += part;
    held += guard.holds() ? 1ms : 0ms;
    if (moving && now >= move_end) {
      guard.move_ended(now);
      moving = false;
    }
    if (!moving && wants && !guard.holds()) {
      guard.move_began(now);
      moving = true;
      ++moves;
      move_end = now + takes;
    }
    guard.look(now, static_cast<std::uint64_t>(100 * done));
    if (const auto news = guard.take_news()) ++(news->pays ? paid : stopped);
  }
  /// How long until moves are stopped.
  Time until_stopped(Time limit, const std::function<double(bool)>& pace) {
    const Time begin = now;
    while (stopped == 0 && now - begin < limit) run(1ms, pace);
    return now - begin;
  }

  PaceGuard guard;
  Time now = 10s, takes = 10ms, move_end{0}, held{0};
  double done = 0;
  bool moving = false, wants = true;
  int paid = 0, stopped = 0, moves = 0;
};

double harmful(bool moving) {
  return moving ? 0.41 : 1;
}
double useful(bool moving) {
  return moving ? 1.2 : 1;
}
double neutral(bool) {
  return 1;
}

/// Multiplies a pace by a factor that changes every 20 ms: the pace of a window of 100 ms by a
/// tenth, or `deviation` / 2.2.
class Noise {
 public:
  explicit Noise(std::uint32_t seed, double deviation = 0.22)
      : random_(seed), normal_(0, deviation) {}
  double operator()() {
    if (steps_++ % 20 == 0) factor_ = std::exp(normal_(random_));
    return factor_;
  }

 private:
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
  int steps_ = 0;
  double factor_ = 1;
};

TEST(PaceGuardTest, MovesThatHarmStopWithinTwoSeconds) {
  Course course;
  EXPECT_LE(course.until_stopped(10s, harmful), 2s);
  ASSERT_TRUE(course.guard.rests());
  EXPECT_NEAR(course.guard.verdict()->during, std::log(0.41), 0.1);
}

TEST(PaceGuardTest, AWindowWithoutMovesBeginsWhenTheyHaveEnded) {
  Course course;
  course.takes = 300ms;
  EXPECT_LE(course.until_stopped(10s, harmful), 3s);
  EXPECT_NEAR(course.guard.verdict()->during, std::log(0.41), 0.05);
}

TEST(PaceGuardTest, AProgramThatMovesHarmKeepsItsPaceFromTheSecondSecondOn) {
  Course course;
  course.run(1s, harmful);
  const double before = course.done;
  course.run(59s, harmful);
  EXPECT_GE(course.done - before, 0.98 * 59'000);
}

TEST(PaceGuardTest, MovesThatGainGoOn) {
  Course course;
  course.run(2s, useful);
  ASSERT_EQ(course.paid, 1);
  EXPECT_EQ(course.guard.verdict()->pairs, 3u);
  course.run(58s, useful);
  EXPECT_EQ(course.stopped, 0);
  EXPECT_GE(course.paid, 1);
  EXPECT_LE(course.held, 60s / 25);
}

TEST(PaceGuardTest, MovesThatNeitherHelpNorHarmStop) {
  Course course;
  EXPECT_LE(course.until_stopped(10s, neutral), 2s);
  EXPECT_EQ(course.paid, 0);
}

TEST(PaceGuardTest, MovesThatGainLessThanAskedStop) {
  Course course;
  EXPECT_LE(course.until_stopped(10s, [](bool moving) { return moving ? 1.01 : 1; }), 2s);
}

TEST(PaceGuardTest, BacksOffForTwiceAsLongEachTime) {
  Course course;
  course.until_stopped(10s, harmful);
  EXPECT_EQ(course.guard.verdict()->back_off, 10s);
  course.run(12s, harmful);
  EXPECT_EQ(course.stopped, 2);
  EXPECT_EQ(course.guard.verdict()->back_off, 20s);
}

TEST(PaceGuardTest, AProbeLetsMovesGoOnOnceTheyPay) {
  Course course;
  course.run(5s, harmful);
  ASSERT_TRUE(course.guard.rests());
  course.run(20s, useful);
  EXPECT_GE(course.paid, 1);
  EXPECT_EQ(course.stopped, 1);
}

TEST(PaceGuardTest, NoiseSeldomStopsMovesThatGain) {
  int stopped = 0;
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    Course course;
    Noise noise(seed);
    course.run(18s, [&](bool moving) { return noise() * useful(moving); });
    stopped += course.stopped > 0 ? 1 : 0;
  }
  EXPECT_LE(stopped, 12);  // 6 %
}

TEST(PaceGuardTest, NoiseSeldomHidesHarm) {
  int missed = 0;
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    Course course;
    Noise noise(seed);
    const auto pace = [&](bool moving) { return noise() * harmful(moving); };
    missed += course.until_stopped(17s, pace) >= 17s || course.paid > 0 ? 1 : 0;
  }
  EXPECT_LE(missed, 12);
}

/// Longer windows, from trial to trial, tell that there is nothing to gain.
TEST(PaceGuardTest, NeutralMovesStopWithALittleNoise) {
  int stopped = 0;
  for (std::uint32_t seed = 1; seed <= 50; ++seed) {
    Course course;
    Noise noise(seed, 0.01);
    course.until_stopped(180s, [&](bool) { return noise(); });
    stopped += course.stopped;
  }
  EXPECT_GE(stopped, 40);
}

/// Nothing is lost meanwhile.
TEST(PaceGuardTest, MovesThatNoiseKeepsFromBeingJudgedGoOn) {
  Course course;
  Noise noise(1, 0.5);
  course.run(60s, [&](bool moving) { return noise() * useful(moving); });
  EXPECT_EQ(course.stopped, 0);
  EXPECT_LE(course.held, 8s);
}

/// What moves leave behind counts: the program stays faster when they stop for a window.
TEST(PaceGuardTest, MovesWhoseGainLastsGoOn) {
  Course course;
  const auto pace = [&](bool moving) {
    return (1 + 0.004 * std::min(course.moves, 200)) * (moving ? 0.95 : 1);
  };
  course.run(2s, pace);
  EXPECT_EQ(course.stopped, 0);
}

TEST(PaceGuardTest, AProgramThatSlowsDownWithoutMovesGetsThemBackAtOnce) {
  Course course;
  Time last_move = course.now;
  // What moves have made near is far again after 5 s.
  const auto pace = [&](bool moving) {
    if (moving) last_move = course.now;
    return course.now - last_move > 5s ? 0.6 : 1.0;
  };
  course.until_stopped(10s, pace);
  ASSERT_TRUE(course.guard.rests());
  course.run(6500ms, pace);
  EXPECT_GT(course.now - last_move, 0s);
  EXPECT_LE(course.now - last_move, 1s);
}

TEST(PaceGuardTest, ASteadyPaceIsNotTakenForASlowerOne) {
  Course course;
  course.until_stopped(10s, neutral);
  const int moves = course.moves;
  course.run(9s, neutral);
  EXPECT_EQ(course.moves, moves);
}

TEST(PaceGuardTest, WindowsHaveWholeBursts) {
  for (const double launch : {75, 96, 130, 400}) {
    for (const bool ahead : {false, true}) {
      SCOPED_TRACE(testing::Message() << launch << " ms, ahead: " << ahead);
      Course harmed, helped;
      harmed.run_in_bursts(15s, launch, ahead, harmful);
      EXPECT_GE(harmed.stopped, 1);
      EXPECT_EQ(harmed.paid, 0);
      ASSERT_TRUE(harmed.guard.verdict());
      EXPECT_NEAR(harmed.guard.verdict()->during, std::log(0.41), 0.25);
      helped.run_in_bursts(15s, launch, ahead, useful);
      EXPECT_GE(helped.paid, 1);
      EXPECT_EQ(helped.stopped, 0);
    }
  }
}

TEST(PaceGuardTest, AnIdleProgramIsNotJudged) {
  Course course;
  course.run(30s, [](bool) { return 0; });
  EXPECT_EQ(course.held, 0s);
  EXPECT_EQ(course.stopped + course.paid, 0);
}

TEST(PaceGuardTest, AProgramThatFallsIdleIsNotHeldUp) {
  Course course;
  course.run(700ms, harmful);
  while (!course.guard.holds()) course.run(1ms, harmful);
  course.run(11s, [](bool) { return 0; });
  EXPECT_FALSE(course.guard.holds());
  EXPECT_EQ(course.stopped, 0);
}

TEST(PaceGuardTest, StepsThatTakeLongerThanIdleAreNotHeldUp) {
  Course course;
  for (int step = 0; step < 20; ++step) {
    course.run(1ms, neutral);
    course.run(12s, [](bool) { return 0; });
  }
  EXPECT_EQ(course.held, 0s);
}

TEST(PaceGuardTest, FewMovesAreNotTested) {
  Course course;
  for (int i = 0; i < 60; ++i) {
    course.wants = true;
    course.run(1ms, harmful);
    course.wants = false;
    course.run(999ms, harmful);
  }
  EXPECT_EQ(course.held, 0s);
}

TEST(PaceGuardTest, APolicyThatNoLongerWantsToMoveIsNotJudged) {
  Course course;
  while (!course.guard.holds()) course.run(1ms, neutral);
  course.wants = false;
  course.run(3s, neutral);
  const Time held = course.held;
  course.run(3s, neutral);
  EXPECT_EQ(course.held, held);
  EXPECT_EQ(course.stopped + course.paid, 0);
}

TEST(PaceGuardTest, AnotherPolicyIsNotHeldBackForThisOne) {
  Course course;
  course.until_stopped(10s, harmful);
  course.guard.forget();
  EXPECT_FALSE(course.guard.holds());
  EXPECT_FALSE(course.guard.verdict());
}

TEST(PaceGuardTest, HoldsNothingBackIfItIsOff) {
  PaceLimits limits;
  limits.watches = false;
  Course course(limits);
  course.run(10s, harmful);
  EXPECT_EQ(course.held, 0s);
}

TEST(PaceGuardTest, SaysWhatItFound) {
  Course course;
  course.until_stopped(10s, harmful);
  const std::string text = to_string(*course.guard.verdict());
  EXPECT_EQ(text.rfind("moves stop for 10 s: the program's pace changes by -5", 0), 0u) << text;
}

}  // namespace
}  // namespace vma
