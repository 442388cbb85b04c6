// Goal: the twin tests notice lost writes. Method: breaks, on purpose, what the bytes depend on;
// some seed must find it.

#include "support/test_run.hpp"
#include "twin/twin_play.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace vma {
namespace {

/// A play in which the bug can show, without other company.
TwinPlan plain(std::uint64_t seed, TwinBug bug) {
  TwinPlan plan;
  plan.seed = seed;
  plan.bug = bug;
  plan.waves = true;
  plan.hosts = false;
  plan.cancels = false;
  return plan;
}

/// The message of the first seed that finds the bug.
std::string found(TwinBug bug) {
  constexpr std::uint64_t seeds_max = 10'000;
  for (std::uint64_t i = 0; i < seeds_max; ++i) {
    const TwinPlan plan = plain(run_seed() + i, bug);
    const TwinOutcome outcome = play(plan);
    if (outcome.problem.empty()) continue;
    fmt::print("found by seed {}, after {}: {}\n", plan.seed, i, outcome.problem);
    return outcome.problem;
  }
  return "";
}

TEST(TwinBug, WithoutOneTheSamePlaysAreClean) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(play(plain(run_seed() + i, TwinBug::none)).problem, "");
  }
}

TEST(TwinBug, AGateThatStopsNothingIsFound) {
  EXPECT_NE(found(TwinBug::no_gate), "");
}

TEST(TwinBug, AnOldDigestKeptAfterAFixIsFound) {
  EXPECT_NE(found(TwinBug::old_digest).find("differ"), std::string::npos);
}

TEST(TwinBug, ASettlingThatIsSkippedIsFound) {
  EXPECT_NE(found(TwinBug::no_settling).find("differ"), std::string::npos);
}

}  // namespace
}  // namespace vma
