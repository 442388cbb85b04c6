// Goal: whatever driver calls fail, no byte, access right or object is lost, and later requests
// work (I1, I3, I4, I5). Method: fails each driver call of one life in turn, from the opening of
// the runtime to its end, then two of them, then several in a row.

#include "faults/broken_drivers.hpp"
#include "faults/sweep.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <random>

namespace vma {
namespace {

/// The number of calls in a life without failures.
int calls_of(std::uint64_t seed) {
  LifePlan plan;
  plan.seed = seed;
  return static_cast<int>(expect_whole(plan).seen.size());
}

TEST(Faults, AnUndisturbedLifeIsWhole) {
  for (std::uint64_t seed = run_seed(); seed < run_seed() + 20; ++seed) {
    LifePlan plan;
    plan.seed = seed;
    const LifeOutcome outcome = expect_whole(plan);
    EXPECT_EQ(outcome.fired, 0);
    EXPECT_TRUE(outcome.errors.empty());
    EXPECT_GT(outcome.seen.size(), 200u);
  }
}

TEST(Faults, ALifeReplaysFromItsSeed) {
  LifePlan plan;
  plan.seed = run_seed();
  plan.fail = {100, 140};
  const LifeOutcome first = expect_whole(plan), second = expect_whole(plan);
  EXPECT_EQ(first.seen, second.seen);
  EXPECT_EQ(first.errors, second.errors);
}

TEST(Faults, AnySingleFailureLosesNothing) {
  const std::uint64_t seeds = long_run() ? 20 : 2;
  for (std::uint64_t seed = run_seed(); seed < run_seed() + seeds; ++seed) {
    LifePlan plan;
    plan.seed = seed;
    for (int number = sweep_start(thinned(1));; number += thinned(1)) {
      plan.fail = {number};
      const LifeOutcome outcome = expect_whole(plan);
      EXPECT_FALSE(outcome.poisoned) << "one failure leaves a way home; " << describe(plan);
      if (outcome.fired == 0) break;
    }
  }
}

TEST(Faults, AnySingleFailureWithContextsOfTheRuntimesOwnLosesNothing) {
  LifePlan plan;
  plan.seed = run_seed();
  plan.own_contexts = true;
  for (int number = sweep_start(thinned(1));; number += thinned(1)) {
    plan.fail = {number};
    const LifeOutcome outcome = expect_whole(plan);
    EXPECT_FALSE(outcome.poisoned) << "one failure leaves a way home; " << describe(plan);
    if (outcome.fired == 0) break;
  }
}

// In each second case beside a failure of the work that the first one leads to: a resume of what
// was suspended by then, the hold or the gate that replaces it.
TEST(Faults, AnySingleFailureBesideSuspensionsLosesNothing) {
  LifePlan plan;
  plan.seed = run_seed();
  plan.suspends = true;
  for (int number = sweep_start(thinned(1));; number += thinned(1)) {
    plan.fail = {number};
    if (number % 2 == 1) plan.fail.insert(number + 1 + number % 7);
    const LifeOutcome outcome = expect_whole(plan);
    if (plan.fail.size() == 1) {
      EXPECT_FALSE(outcome.poisoned) << "one failure leaves a way home; " << describe(plan);
    }
    if (outcome.fired == 0) break;
  }
}

TEST(Faults, ASuspensionThatFailsHalfwayLosesNothing) {
  for (const int times : {1, 3, 120}) {
    for (int number = 0;; ++number) {
      LifePlan plan;
      plan.seed = run_seed() + static_cast<unsigned>(number);
      plan.suspends = true;
      HalfwayDriver* driver = nullptr;
      bool failed = false;
      plan.wrap = [&](SimDriver& machine) {
        auto made = std::make_unique<HalfwayDriver>(machine, number, times);
        driver = made.get();
        return made;
      };
      plan.arm = [&](bool armed) {
        if (driver != nullptr) driver->set_armed(armed);
      };
      plan.disturbed = [&] { return failed = driver->failed(); };
      expect_whole(plan, fmt::format("suspension {} fails halfway", number));
      if (!failed) {
        EXPECT_GT(number, 5) << "moves suspend";
        break;
      }
    }
  }
}

// Clean copies are left behind, used and dropped; an outdated one is never used.
TEST(Faults, AnySingleFailureBesideCleanCopiesLosesNothing) {
  LifePlan plan;
  plan.seed = run_seed();
  const auto first = static_cast<int>(expect_whole(plan).seen.size());
  plan.clean_copies = true;
  const LifeOutcome whole = expect_whole(plan);
  EXPECT_EQ(whole.fired, 0);
  EXPECT_TRUE(whole.errors.empty());
  EXPECT_GT(whole.bytes_remapped, 0u);
  // The sweep above covers the calls before. In a life without copies the end is short.
  constexpr int end_of_life = 60;
  const int end = std::max(0, first - end_of_life);
  for (int number = end + sweep_start(thinned(1));; number += thinned(1)) {
    plan.fail = {number};
    const LifeOutcome outcome = expect_whole(plan);
    EXPECT_FALSE(outcome.poisoned) << "one failure leaves a way home; " << describe(plan);
    if (outcome.fired == 0) break;
  }
}

TEST(Faults, AnyPairOfFailuresLosesNothing) {
  constexpr int sample = 1'500;
  LifePlan plan;
  plan.seed = run_seed();
  const int calls = calls_of(plan.seed);
  std::mt19937_64 random(run_seed());
  int lives = 0;
  const auto live = [&](int first, int second) {
    plan.fail = {first, second};
    expect_whole(plan);
    ++lives;
  };
  if (long_run()) {
    // A failure changes later calls, so the second number may exceed those of an undisturbed life.
    for (int first = 0; first < calls; ++first) {
      for (int second = first + 1; second < calls + 10; ++second) live(first, second);
    }
  } else {
    for (int i = 0; i < sample; i += thinned(1)) {
      const int first = static_cast<int>(random() % static_cast<unsigned>(calls));
      // In half of the cases close together, so that the second hits the repair of the first.
      const unsigned distance_max = random() % 2 == 0 ? 12 : 290;
      const int distance = static_cast<int>(random() % distance_max);
      live(first, first + 1 + distance);
    }
  }
  fmt::print("{} pairs of {} calls, seed {}\n", lives, calls, plan.seed);
}

TEST(Faults, FailuresInARowLoseNothing) {
  LifePlan plan;
  plan.seed = run_seed();
  const int calls = calls_of(plan.seed);
  for (const int row : {3, 5, 8, 14, 30}) {
    const int step = thinned(long_run() ? 1 : 4);
    for (int first = sweep_start(step); first < calls; first += step) {
      plan.fail.clear();
      for (int number = first; number < first + row; ++number) plan.fail.insert(number);
      expect_whole(plan);
    }
  }
}

}  // namespace
}  // namespace vma
