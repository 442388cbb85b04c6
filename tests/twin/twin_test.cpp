// Goal: a background move loses no write, whatever runs at the same time, in any order. Method:
// writers that never pause add the same to an array and to its twin, which does not move; at the
// end both are equal byte for byte. In stepped plays the seed determines the machine, the other
// threads and the order of steps; threaded plays are for race detectors.

#include "support/sanitizer.hpp"
#include "support/test_run.hpp"
#include "twin/twin_play.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <set>

namespace vma {
namespace {

void print(const TwinOutcome& all) {
  fmt::print("{} moves done, failed {}; {} chunks moved, {} live; {} gates, given up {}\n",
             all.moves_done, all.moves_failed, all.chunks_moved, all.chunks_live, all.gates,
             all.given_up);
}

TEST(Twin, ArrayAndTwinAreEqualInEveryInterleaving) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds time_of_short_run(20);
  constexpr std::uint64_t long_seeds = 20'000;
  const Clock::time_point end = Clock::now() + time_of_short_run;
  std::set<std::uint64_t> interleavings;
  TwinOutcome all;
  std::uint64_t seed = run_seed();
  const auto goes_on = [&] {
    return long_run() ? seed < run_seed() + long_seeds : Clock::now() < end;
  };
  for (; goes_on() && !HasFailure(); ++seed) {
    const TwinPlan plan = TwinPlan::drawn(seed);
    const TwinOutcome outcome = play(plan);
    EXPECT_EQ(outcome.problem, "") << describe(plan);
    interleavings.insert(outcome.interleaving);
    all += outcome;
  }
  fmt::print("seeds {} to {}, {} different interleavings\n", run_seed(), seed - 1,
             interleavings.size());
  print(all);
  fmt::print("VMART_COUNT twin_interleavings={}\n", interleavings.size());
  EXPECT_GT(all.chunks_live, 0u);
  EXPECT_GT(all.moves_done, all.moves_failed["busy"]);
}

TEST(Twin, APlayFollowsFromItsSeed) {
  for (std::uint64_t seed = run_seed(); seed < run_seed() + 5; ++seed) {
    const TwinPlan plan = TwinPlan::drawn(seed);
    const TwinOutcome first = play(plan), second = play(plan);
    EXPECT_EQ(first.interleaving, second.interleaving) << describe(plan);
    EXPECT_EQ(first.chunks_moved, second.chunks_moved) << describe(plan);
  }
}

TEST(Twin, ArrayAndTwinAreEqualWithThreads) {
  const int plays = long_run() ? 400 : under_sanitizer ? 12 : 30;
  TwinOutcome all;
  for (int i = 0; i < plays && !HasFailure(); ++i) {
    TwinPlan plan = TwinPlan::drawn(run_seed() + static_cast<unsigned>(i));
    plan.threaded = true;
    plan.gate_limit = std::chrono::milliseconds(50);  // In real time, computers are busy at times.
    const TwinOutcome outcome = play(plan);
    EXPECT_EQ(outcome.problem, "") << describe(plan);
    all += outcome;
  }
  print(all);
}

// One array is read-only at times and moves meanwhile, with clean copies kept; then it is written
// again.
TEST(Twin, WhatComesBackToACleanCopyIsEqualToo) {
  const int plays = long_run() ? 2'000 : under_sanitizer ? 10 : 30;
  constexpr int plays_max = 3'000;  // A few seeds have none.
  TwinOutcome all;
  int played = 0;
  for (; !HasFailure() && (played < plays || all.bytes_remapped == 0); ++played) {
    ASSERT_LT(played, plays_max) << "no clean copy was ever used";
    TwinPlan plan = TwinPlan::drawn(run_seed() + static_cast<unsigned>(played));
    plan.company.reads_only = true;
    plan.hosts = true;
    const TwinOutcome outcome = play(plan);
    EXPECT_EQ(outcome.problem, "") << describe(plan);
    all += outcome;
  }
  fmt::print("{} plays, {} bytes were remapped\n", played, all.bytes_remapped);
  print(all);
}

}  // namespace
}  // namespace vma
