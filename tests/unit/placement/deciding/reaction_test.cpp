// Goal: a change of use reaches memory soon, and use that flickers moves nothing. Method: the
// decision path in virtual time, between a program in lockstep and a model of the migrator, on
// machines like H200s.
#include "support/reaction/reaction_run.hpp"

#include "base/units.hpp"
#include "placement/policies/built_in_policies.hpp"
#include "unit/placement/policies/policy_rig.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

using namespace std::chrono_literals;

constexpr Time settled = 20s;  // The averages contain nothing else.

/// Four blocks for two GPUs: in a step each GPU reads its own block four times and the other's
/// once. In phase 1 they have exchanged their blocks.
LockstepLoad exchange(std::function<std::size_t(Time)> phase_at) {
  LockstepLoad load;
  load.gpus = 2;
  load.blocks = 2;
  load.chunks_a_block = 16;
  load.chunk_bytes = 64 * MiB;
  load.passes = [](std::size_t phase, std::size_t gpu, std::size_t block) {
    return std::size_t{(gpu + phase) % 2 == block ? 4u : 1u};
  };
  load.phase_at = std::move(phase_at);
  return load;
}

ReactionOptions options_of(LockstepLoad load) {
  ReactionOptions options;
  options.load = std::move(load);
  const PolicyMachine machine = PolicyMachine::h200(2, 64 * GiB, 64 * GiB);
  options.costs = machine.costs;
  options.places = machine.places();
  options.homes = {gpu_place(0), gpu_place(1)};
  return options;
}

/// A run that was in phase 0 until `settled`, and then in each phase for `each`.
/// In a dry run nothing moves.
std::unique_ptr<ReactionRun> run_of(Time each, Time length, const std::string& policy,
                                    bool dry_run = false) {
  ReactionOptions options = options_of(exchange([each](Time now) {
    return now < settled ? std::size_t{0}
                         : static_cast<std::size_t>((now - settled) / each + 1) % 2;
  }));
  options.dry_run = dry_run;
  auto run = std::make_unique<ReactionRun>(options, make_policy(policy));
  run->run_until(settled);
  EXPECT_EQ(run->moves(), 0u);
  run->run_until(settled + length);
  return run;
}

TEST(Reaction, AChangeReachesMemoryInHalfASecond) {
  const auto run = run_of(6s, 6s, "cost_benefit");
  const double best = run->rate(settled - 5s, settled);
  ASSERT_EQ(run->phases().size(), 2u);
  const ReactionPhase& its = run->phases()[1];
  EXPECT_LE(its.accepted - its.begin, 300ms);
  EXPECT_LE(its.ended - its.begin, 400ms);
  EXPECT_EQ(its.moves, 32u) << "each chunk moves once";
  const auto recovery = run->recovery(settled, settled + 6s, 0.9 * best, 50ms);
  ASSERT_TRUE(recovery.has_value());
  EXPECT_LE(*recovery, 500ms);
  EXPECT_GE(run->rate(settled, settled + 6s), 0.9 * best);
}

TEST(Reaction, AveragesAloneTakeSeconds) {
  const auto run = run_of(6s, 6s, "cost_benefit:shift=0s");
  EXPECT_GE(run->phases().at(1).ended - settled, 2s);
}

TEST(Reaction, FlickerMovesNothing) {
  for (const Time each : {50ms, 100ms, 200ms}) {
    EXPECT_EQ(run_of(each, 10s, "cost_benefit")->moves(), 0u) << each.count();
  }
}

// Each chunk moves once: then it is known that the use stays nowhere. A policy that moved only some
// of the chunks back would be slow in all phases: the rival moves nothing.
TEST(Reaction, AlternationThatIsTooFastIsFollowedOnce) {
  for (const Time each : {300ms, 400ms, 500ms, 700ms, 800ms, 900ms, 1000ms}) {
    const auto run = run_of(each, 20s, "cost_benefit");
    const auto rival = run_of(each, 20s, "cost_benefit", true);
    EXPECT_LE(run->moves(), 32u) << each.count();
    EXPECT_GE(run->rate(settled, settled + 20s), 0.95 * rival->rate(settled, settled + 20s))
        << each.count();
  }
}

// Each block has a reader that reads it four times in one phase, and another that reads it once or
// five times in the other. By what is read in all, some blocks would have to go back, and the GPUs
// would wait for some remote block in either phase.
TEST(Reaction, AveragesDoNotMoveAPartOfWhatAlternates) {
  for (const Time each : {450ms, 600ms, 700ms, 900ms}) {
    LockstepLoad load = exchange([each](Time now) {
      return now < settled ? std::size_t{0}
                           : static_cast<std::size_t>((now - settled) / each + 1) % 2;
    });
    load.blocks = 4;
    load.passes = [](std::size_t phase, std::size_t gpu, std::size_t block) {
      const std::size_t own = (gpu + phase) % 4, of_next = ((gpu + 1) % 2 + phase) % 4;
      return std::size_t{block == own ? 4u : 0u} + (block == of_next || block == (own + 2) % 4);
    };
    ReactionOptions options = options_of(std::move(load));
    options.homes = {gpu_place(0), gpu_place(1), gpu_place(0), gpu_place(1)};
    ReactionRun run(options, make_policy("cost_benefit"));
    options.dry_run = true;
    ReactionRun rival(options, make_policy("cost_benefit"));
    run.run_until(settled + 20s);
    rival.run_until(settled + 20s);
    EXPECT_LE(run.moves(), 64u) << each.count();
    EXPECT_GE(run.rate(settled, settled + 20s), 0.95 * rival.rate(settled, settled + 20s))
        << each.count();
  }
}

TEST(Reaction, AChangeThatStaysIsFollowedAfterAlternation) {
  const Time back = settled + 4 * 500ms;
  const auto phase_at = [back](Time now) {
    if (now < settled || now >= back) return std::size_t{0};
    return static_cast<std::size_t>((now - settled) / 500ms + 1) % 2;
  };
  ReactionRun run(options_of(exchange(phase_at)), make_policy("cost_benefit"));
  run.run_until(back + 6s);
  const double best = run.rate(settled - 5s, settled);
  EXPECT_GE(run.rate(back + 2s, back + 6s), 0.9 * best);
}

TEST(Reaction, AlternationThatIsSlowEnoughPays) {
  for (const Time each : {1100ms, 2000ms, 5000ms}) {
    const auto run = run_of(each, 10 * each, "cost_benefit");
    const auto averages = run_of(each, 10 * each, "cost_benefit:shift=0s");
    EXPECT_LE(run->moves(), 10 * 32u) << each.count();
    EXPECT_GE(run->rate(settled, settled + 10 * each), averages->rate(settled, settled + 10 * each))
        << each.count();
  }
}

/// The whole way with chunks so small that their stops exceed the budget: 512 times 200 us.
std::unique_ptr<ReactionRun> run_of_many_chunks(Time stall_ahead) {
  LockstepLoad load = exchange([](Time now) { return std::size_t{now < settled ? 0u : 1u}; });
  load.chunks_a_block = 256;
  load.chunk_bytes = 32 * MiB;
  ReactionOptions options = options_of(std::move(load));
  options.planner.stall_ahead = stall_ahead;
  auto run = std::make_unique<ReactionRun>(options, make_policy("cost_benefit"));
  run->run_until(settled + 6s);
  return run;
}

TEST(Reaction, MovesThatPayDoNotWaitForTheStallBudget) {
  const auto run = run_of_many_chunks(4s);
  const ReactionPhase& its = run->phases().at(1);
  EXPECT_EQ(its.moves, 512u);
  EXPECT_LE(its.ended - its.begin, 900ms);
  EXPECT_GE(its.advances, 1u);
  EXPECT_EQ(its.advances_paid, its.advances);
  EXPECT_EQ(run->path().planner().stall_credit(), 0) << "all moves have ended";
}

TEST(Reaction, OthersDo) {
  const auto run = run_of_many_chunks(0s);
  const ReactionPhase& its = run->phases().at(1);
  EXPECT_EQ(its.advances, 0u);
  EXPECT_GE(its.ended - its.begin, 900ms);
  EXPECT_GT(its.refused.at("stall_budget"), 0u);
}

TEST(Reaction, ADryRunMovesNothing) {
  ReactionOptions options =
      options_of(exchange([](Time now) { return std::size_t{now < settled ? 0u : 1u}; }));
  options.dry_run = true;
  ReactionRun run(options, make_policy("cost_benefit"));
  run.run_until(settled + 2s);
  EXPECT_EQ(run.moves(), 0u);
  EXPECT_GT(run.phases().at(1).proposals, 0u);
  EXPECT_LT(run.rate(settled + 1s, settled + 2s), 0.5 * run.rate(settled - 1s, settled));
}

}  // namespace
}  // namespace vma
