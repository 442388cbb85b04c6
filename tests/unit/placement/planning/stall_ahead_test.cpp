/// Goal: moves that pay may spend the stall budget of later, never more than the credit, and the
/// credit follows what they saved. Method: a virtual clock and hand-computed cases. Each move stops
/// two GPUs for 200 us. The budget is 1 % of the time, 1 ms at once, so five moves; that of 205 ms
/// may be spent ahead, which is 2.05 ms: ten moves more.

#include "unit/placement/planning/planner_rig.hpp"

#include <gtest/gtest.h>

#include <random>

namespace vma {
namespace {

using namespace std::chrono_literals;
using enum MoveRefusal::Why;

constexpr double credit_s = 2.05e-3;
/// Twice what a move costs both GPUs is 0.8 ms.
constexpr double pays = 0.9e-3, does_not_pay = 0.7e-3;

PlannerLimits limits_ahead() {
  PlannerLimits limits = no_limits();
  limits.stall_share = 0.01;
  limits.stall_burst = 1ms;
  limits.stall_ahead = 205ms;
  return limits;
}

class StallAheadTest : public testing::Test {
 protected:
  /// Wants new chunks of 1000 bytes at GPU 0.
  PlanOutcome want(int moves, double value) {
    Plan plan;
    for (int i = 0; i < moves; ++i) {
      chunks_.push_back(rig_.add(1000, node_of_two));
      plan.move(chunks_.back(), gpu0, value, "test");
    }
    return rig_.plan(plan);
  }
  /// Wants so many moves, which are made at once. Returns how many were accepted.
  std::size_t move(int moves, double value) {
    chunks_.clear();
    const PlanOutcome outcome = want(moves, value);
    EXPECT_EQ(rig_.carry_out(), outcome.accepted.size());
    return outcome.accepted.size();
  }
  /// GPU 0 uses that many bytes of each chunk. Reads of the host are at 52 GB/s, and of its own HBM
  /// at 3.8 TB/s: a GB saves 19 ms.
  void use(double bytes) {
    for (const ChunkId chunk : chunks_)
      rig_.planner().note_use({chunk, gpu0, bytes, 0}, rig_.snapshot().costs());
  }
  std::vector<StallAhead::Outcome> judge() {
    return rig_.planner().judge_ahead(rig_.snapshot().now());
  }

  PlannerRig rig_{PolicyMachine::h200(2, 1 << 20, 1 << 30), limits_ahead()};
  std::vector<ChunkId> chunks_;
};

TEST_F(StallAheadTest, MovesThatPayUseUpBudgetAndCredit) {
  const PlanOutcome outcome = want(20, pays);
  EXPECT_EQ(outcome.accepted.size(), 15u);
  ASSERT_EQ(outcome.refused.size(), 5u);
  for (const RefusedMove& move : outcome.refused) EXPECT_EQ(move.reason, stall_budget);
  ASSERT_TRUE(outcome.ahead.has_value());
  EXPECT_EQ(outcome.ahead->moves, 10u);
  EXPECT_NEAR(outcome.ahead->stall, 2e-3, 1e-9);
  EXPECT_NEAR(outcome.ahead->gain, 10 * pays, 1e-9);
  EXPECT_NEAR(outcome.ahead->credit, credit_s, 1e-9);
  EXPECT_NEAR(rig_.planner().stall_left(), -2e-3, 1e-9);
  int ahead = 0;
  for (const AcceptedMove& move : outcome.accepted) ahead += move.ahead ? 1 : 0;
  EXPECT_EQ(ahead, 10);
}

TEST_F(StallAheadTest, MovesThatDoNotPayUseUpTheBudgetOnly) {
  const PlanOutcome outcome = want(20, does_not_pay);
  EXPECT_EQ(outcome.accepted.size(), 5u);
  EXPECT_FALSE(outcome.ahead.has_value());
}

TEST_F(StallAheadTest, NothingIsSpentAheadIfThatIsOff) {
  PlannerLimits limits = limits_ahead();
  limits.stall_ahead = Time{0};
  rig_.planner().set_limits(limits);
  EXPECT_EQ(want(20, 1).accepted.size(), 5u);
}

// A swap stops for both of its moves: 1.6 ms are twice what that costs.
TEST_F(StallAheadTest, AVictimIsPartOfTheCost) {
  PlannerRig rig(PolicyMachine::h200(2, 1000, 1 << 20), limits_ahead());
  const auto swaps = [&](double value) {
    Plan plan;
    for (int i = 0; i < 4; ++i) {
      const ChunkId cold = rig.add(250, gpu0), hot = rig.add(250, node_of_two);
      rig.heat(hot, gpu0, 1);
      plan.evict(cold, node_of_two, "test");
      plan.move(hot, gpu0, value, "test");
    }
    return rig.plan(plan).accepted.size();
  };
  EXPECT_EQ(swaps(1.5e-3), 4u);
  rig.carry_out();
  PlannerRig other(PolicyMachine::h200(2, 1000, 1 << 20), limits_ahead());
  std::swap(rig, other);
  EXPECT_EQ(swaps(1.7e-3), 8u);
}

TEST_F(StallAheadTest, WhatIsSpentAheadIsPaidBack) {
  move(20, pays);
  const ChunkId later = rig_.add(1000, node_of_two);
  rig_.advance(219ms);  // 2 ms are missing, and 0.2 ms.
  EXPECT_EQ(rig_.try_move(later, gpu0, does_not_pay), stall_budget);
  rig_.advance(2ms);
  EXPECT_EQ(rig_.try_move(later, gpu0, does_not_pay), std::nullopt);
}

TEST_F(StallAheadTest, CarryingThemOutMayOverdrawTheBudgetUntilTheyHaveEnded) {
  EXPECT_EQ(rig_.planner().stall_credit(), 0);
  want(5, pays);
  EXPECT_EQ(rig_.planner().stall_credit(), 0);
  want(5, pays);
  EXPECT_NEAR(rig_.planner().stall_credit(), credit_s, 1e-9);
  rig_.carry_out();
  EXPECT_EQ(rig_.planner().stall_credit(), 0);
}

// Ten moves cost 4 ms of both GPUs. They have two seconds to save that.
TEST_F(StallAheadTest, AFalsePredictionShrinksTheCredit) {
  EXPECT_EQ(move(20, pays), 15u);
  use(1e7);  // 0.19 ms each, together less than 3 ms.
  EXPECT_TRUE(judge().empty());
  rig_.advance(1999ms);
  EXPECT_TRUE(judge().empty());
  rig_.advance(1ms);
  const auto outcomes = judge();
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_FALSE(outcomes[0].paid);
  EXPECT_NEAR(outcomes[0].owed, 4e-3, 1e-9);
  EXPECT_NEAR(outcomes[0].saved, 10 * 1e7 * (1 / 52e9 - 1 / 3.8e12), 1e-9);
  EXPECT_NEAR(outcomes[0].credit, credit_s / 4, 1e-9);
  EXPECT_TRUE(judge().empty()) << "each is judged once";
  EXPECT_EQ(move(20, pays), 7u);
}

TEST_F(StallAheadTest, PredictionsThatComeTrueRestoreIt) {
  EXPECT_EQ(move(20, pays), 15u);
  rig_.advance(10s);
  judge();
  for (const std::size_t moves : {7u, 10u, 15u, 15u}) {
    EXPECT_EQ(move(20, pays), moves);
    use(1e9);
    ASSERT_EQ(judge().size(), 1u) << "as soon as they have paid";
    rig_.advance(10s);
  }
}

TEST_F(StallAheadTest, TheCreditNeverShrinksToNothing) {
  PlannerLimits limits = limits_ahead();
  limits.stall_ahead = 10s;
  rig_.planner().set_limits(limits);
  for (int times = 0; times < 10; ++times) {
    EXPECT_GE(move(20, pays), 6u);
    rig_.advance(100s);
    judge();
  }
}

TEST_F(StallAheadTest, OnlyUsesWhereTheChunkHasMovedToCount) {
  chunks_.clear();
  want(20, pays);
  use(1e12);  // Not there yet.
  rig_.carry_out();
  for (const ChunkId chunk : chunks_) {
    if (rig_.at(chunk) == gpu0) rig_.tables().moved(chunk, gpu0);
  }
  rig_.advance(2s);
  const auto outcomes = judge();
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].saved, 0);
}

TEST_F(StallAheadTest, MovesThatFailAreNotJudged) {
  want(20, pays);
  rig_.carry_out({}, [] { return true; });
  rig_.advance(10s);
  EXPECT_TRUE(judge().empty());
  EXPECT_EQ(rig_.planner().stall_credit(), 0);
}

TEST_F(StallAheadTest, APlanThatIsTakenBackIsNotJudged) {
  const PlanOutcome outcome = want(20, pays);
  rig_.planner().take_back(outcome.accepted);
  EXPECT_EQ(rig_.planner().stall_credit(), 0);
  rig_.advance(10s);
  EXPECT_TRUE(judge().empty());
}

TEST_F(StallAheadTest, ChunksThatAreFreedAreForgotten) {
  const PlanOutcome outcome = want(20, pays);
  for (const AcceptedMove& move : outcome.accepted) {
    rig_.tables().row(move.chunk).moving = false;
    rig_.planner().note_gone(move.chunk);
  }
  EXPECT_EQ(rig_.planner().stall_credit(), 0);
  use(1e12);
  rig_.advance(10s);
  EXPECT_TRUE(judge().empty());
}

// Whatever is wanted, and whatever comes of it.
TEST(StallAheadProperty, NeverExceedsItsCredit) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 dice(seed);
    PlannerRig rig(PolicyMachine::h200(2, 1 << 30, 1 << 30), limits_ahead());
    double credit = credit_s;
    for (int times = 0; times < 200; ++times) {
      Plan plan;
      std::vector<ChunkId> chunks;
      for (std::uint64_t i = 0; i < dice() % 30; ++i) {
        chunks.push_back(rig.add(100, node_of_two));
        plan.move(chunks.back(), gpu0, 1e-4 * static_cast<double>(dice() % 20), "test");
      }
      const PlanOutcome outcome = rig.plan(plan);
      EXPECT_NEAR(outcome.ahead.value_or(StallAdvance{0, 0, 0, credit}).credit, credit, 1e-9);
      ASSERT_GE(rig.planner().stall_left(), -credit_s - 1e-9) << "seed " << seed;
      rig.carry_out([&](std::size_t n) { return dice() % n; }, [&] { return dice() % 8 == 0; });
      const bool come_true = dice() % 2 == 0;
      for (const ChunkId chunk : chunks) {
        rig.planner().note_use({chunk, gpu0, come_true ? 1e9 : 1e3, 0}, rig.snapshot().costs());
      }
      rig.advance(std::chrono::milliseconds(dice() % 300));
      for (const StallAhead::Outcome& judged : rig.planner().judge_ahead(rig.snapshot().now()))
        credit = judged.credit;
    }
  }
}

}  // namespace
}  // namespace vma
