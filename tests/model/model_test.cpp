// Goal: the runtime matches a plain model, a map from pointers to bytes and places. Method: random
// operations (allocations of all kinds, frees, moves, kernels, views, pressure). The runtime's
// books and invariants are checked after every step, and nothing may be left behind at the end.
// Stepped plays replay from the printed seed. Planted bugs show that the model notices errors.

#include "memory/chunk.hpp"
#include "model/play.hpp"
#include "support/sanitizer.hpp"
#include "support/test_run.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace vma {
namespace {

/// How much one test plays.
struct Share {
  int plays = 0;
  int operations = 0;
};

Share share(Share sample, int operations_when_long) {
  constexpr int operations = 2'000;
  const auto asked = static_cast<int>(number_from_environment("VMART_TEST_OPERATIONS", 0));
  if (asked == 0 && !long_run()) return sample;
  const int total = asked > 0         ? asked
                    : under_sanitizer ? operations_when_long / 20
                                      : operations_when_long;
  return {(total + operations - 1) / operations, operations};
}

/// The combined results of all plays from that seed on.
PlayOutcome play_from(std::uint64_t first_seed, ModelPlan plan, const Share& share) {
  PlayOutcome all;
  for (int i = 0; i < share.plays; ++i) {
    plan.seed = first_seed + static_cast<std::uint64_t>(i);
    plan.operations = share.operations;
    std::printf("%s\n", describe(plan).c_str());
    std::fflush(stdout);
    const PlayOutcome outcome = play(plan);
    EXPECT_EQ(outcome.mismatch, "") << describe(plan);
    if (!outcome.mismatch.empty()) break;
    all.out_of_memory += outcome.out_of_memory;
    all.refused += outcome.refused;
    for (std::size_t kind = 0; kind < all.operations.size(); ++kind) {
      all.operations[kind] += outcome.operations[kind];
    }
  }
  std::printf("VMART_COUNT model_operations=%llu\n", static_cast<unsigned long long>(all.total()));
  return all;
}

void expect_variety(const PlayOutcome& all) {
  for (const std::uint64_t played : all.operations) EXPECT_GT(played, 0u) << "one kind never came";
  EXPECT_GT(all.out_of_memory, 0u) << "there was no pressure";
  EXPECT_GT(all.refused, 0u);
}

void play_all(const ModelPlan& plan, const Share& share) {
  const PlayOutcome all = play_from(run_seed(), plan, share);
  if (long_run()) expect_variety(all);  // A few plays from any seed may not include everything.
}

class Model : public testing::TestWithParam<const char*> {};

TEST_P(Model, OneUserSeesWhatTheMapSays) {
  ModelPlan plan;
  plan.machine = GetParam();
  play_all(plan, share({sampled(8), 600}, 200'000));
}

TEST_P(Model, ThreeUsersSeeWhatTheirMapsSay) {
  ModelPlan plan;
  plan.machine = GetParam();
  plan.users = 3;
  play_all(plan, share({sampled(8), 600}, 110'000));
}

TEST_P(Model, ThreeThreadsSeeWhatTheirMapsSay) {
  ModelPlan plan;
  plan.machine = GetParam();
  plan.users = 3;
  plan.threaded = true;
  play_all(plan, share({sampled(6), 600}, 24'000));
}

INSTANTIATE_TEST_SUITE_P(Machines, Model, testing::Values("test-2", "test-4", "test-islands"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(ModelReplay, EveryKindOfOperationComesAndMemoryRunsOut) {
  for (const int users : {1, 3}) {
    ModelPlan plan;
    plan.users = users;
    expect_variety(play_from(1, plan, {8, 600}));
  }
}

TEST(ModelReplay, APlayFollowsFromItsSeed) {
  ModelPlan plan;
  plan.seed = run_seed();
  plan.users = 3;
  plan.operations = 300;
  const PlayOutcome first = play(plan), second = play(plan);
  EXPECT_EQ(first.operations, second.operations);
  EXPECT_EQ(first.out_of_memory, second.out_of_memory);
  EXPECT_EQ(first.refused, second.refused);
}

/// Whether plays make the calls that the bug skips.
bool may_show(const Bug& bug, const ModelPlan& plan) {
  if (bug.call == Call::suspend) return plan.suspends();
  return bug.call != Call::record_context || !plan.suspends();
}

/// Plays without the bug, then with it, for a few seeds. Returns the first mismatch that the bug
/// causes.
std::string found(const Bug& bug) {
  constexpr std::uint64_t plays = 250;  // The rarest bug shows in about one play of twenty.
  ModelPlan plan;
  plan.operations = 400;
  for (plan.seed = run_seed(); plan.seed < run_seed() + plays; ++plan.seed) {
    if (!may_show(bug, plan)) continue;
    plan.bug.reset();
    EXPECT_EQ(play(plan).mismatch, "") << describe(plan);
    plan.bug = bug;
    const PlayOutcome outcome = play(plan);
    if (outcome.mismatch.empty()) continue;
    std::printf("found by %s: %s\n", describe(plan).c_str(), outcome.mismatch.c_str());
    return outcome.mismatch;
  }
  return "";
}

TEST(PlantedBug, ACopyThatDidNothingIsFound) {
  EXPECT_NE(found({Call::copy, 40}), "");
}

/// The process may also end with a fault, when the processor accesses host memory that was not
/// granted.
bool found_or_faulted(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) == 0
                           : WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

TEST(PlantedBug, AGrantThatGaveNothingIsFound) {
  if (access_is_verified) GTEST_SKIP() << "SKIPPED: checked builds end the process at once";
  // The test has threads, so a plain fork is not possible.
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(std::_Exit(found({Call::grant, 60}).empty() ? 1 : 0), found_or_faulted, "");
}

TEST(PlantedBug, AHoldThatHoldsNothingIsFound) {
  EXPECT_NE(found({Call::record_context, 1}), "");
}

/// But for the first six, which the check makes on two GPUs: it would find them, and moves hold.
TEST(PlantedBug, ASuspensionThatSuspendsNothingIsFound) {
  EXPECT_NE(found({Call::suspend, 1, 6}), "");
}

}  // namespace
}  // namespace vma
