/// Goal: the planner keeps its budgets over time and finds victims under pressure. Method: a
/// virtual clock and hand-computed cases.

#include "unit/placement/planning/planner_rig.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

using namespace std::chrono_literals;
using enum MoveRefusal::Why;

PlannerRig rig_of(const PlannerLimits& limits) {
  return PlannerRig(PolicyMachine::h200(2, 1000, 1000), limits);
}

// 100 bytes per second, at most 50 at once: moves of 30 and 20 use them up; 20 are back after 0.2
// s.
TEST(PlannerBudget, ARouteFillsWithTime) {
  PlannerLimits limits = no_limits();
  limits.route_bytes_s = 100;
  limits.route_burst_bytes = 50;
  PlannerRig rig = rig_of(limits);
  EXPECT_EQ(rig.try_move(rig.add(30, node_of_two), gpu0), std::nullopt);
  const ChunkId second = rig.add(21, node_of_two), third = rig.add(20, node_of_two);
  EXPECT_EQ(rig.try_move(second, gpu0), route_budget);
  EXPECT_EQ(rig.try_move(second, gpu1), std::nullopt) << "another route";
  EXPECT_EQ(rig.try_move(third, gpu0), std::nullopt);
  const ChunkId fourth = rig.add(20, node_of_two);
  EXPECT_EQ(rig.try_move(fourth, gpu0), route_budget);
  rig.advance(199ms);
  EXPECT_EQ(rig.try_move(fourth, gpu0), route_budget);
  rig.advance(1ms);
  EXPECT_EQ(rig.try_move(fourth, gpu0), std::nullopt);
}

// A move of 200 bytes starts when 50 are there and leaves a debt of 150; it takes 2 s until there
// are 50 again.
TEST(PlannerBudget, AChunkLargerThanTheBurstLeavesADebt) {
  PlannerLimits limits = no_limits();
  limits.route_bytes_s = 100;
  limits.route_burst_bytes = 50;
  PlannerRig rig = rig_of(limits);
  EXPECT_EQ(rig.try_move(rig.add(200, node_of_two), gpu0), std::nullopt);
  const ChunkId next_one = rig.add(50, node_of_two);
  rig.advance(1999ms);
  EXPECT_EQ(rig.try_move(next_one, gpu0), route_budget);
  rig.advance(1ms);
  EXPECT_EQ(rig.try_move(next_one, gpu0), std::nullopt);
}

TEST(PlannerBudget, ARouteHoldsSoMuchAtATime) {
  PlannerLimits limits = no_limits();
  limits.route_under_way_bytes = 50;
  PlannerRig rig = rig_of(limits);
  Plan plan;
  plan.move(rig.add(40, node_of_two), gpu0, 1, "test");
  const MoveNumber number = rig.plan(plan).accepted.front().number;
  const ChunkId second = rig.add(20, node_of_two);
  rig.advance(100s);
  EXPECT_EQ(rig.try_move(second, gpu0), route_budget);
  rig.start(number);
  EXPECT_EQ(rig.try_move(second, gpu0), route_budget);
  rig.end(number);
  EXPECT_EQ(rig.try_move(second, gpu0), std::nullopt);
}

// Each move stops programs for 200 us. A burst of 1 ms allows five of them; 1 % of the time allows
// 50 per second.
TEST(PlannerBudget, ProgramsStandForAShareOfTheTime) {
  PlannerLimits limits = no_limits();
  limits.stall_share = 0.01;
  limits.stall_burst = 1ms;
  PlannerRig rig = rig_of(limits);
  Plan plan;
  for (int i = 0; i < 7; ++i)
    plan.move(rig.add(1, node_of_two), i % 2 == 0 ? gpu0 : gpu1, 1 + i, "test");
  const PlanOutcome outcome = rig.plan(plan);
  EXPECT_EQ(outcome.accepted.size(), 5u);
  EXPECT_EQ(describe(outcome.refused), "0 stall_budget, 1 stall_budget") << "those of least value";
  const ChunkId later = rig.add(1, node_of_two);
  rig.advance(19ms);
  EXPECT_EQ(rig.try_move(later, gpu0), stall_budget);
  rig.advance(1100us);
  EXPECT_EQ(rig.try_move(later, gpu0), std::nullopt);
}

// Five moves of 200 us are enough for two swaps, so the third swap's victim stays too.
TEST(PlannerBudget, IsSpentOnWholeSwaps) {
  PlannerLimits limits = no_limits();
  limits.stall_share = 0.01;
  limits.stall_burst = 1ms;
  PlannerRig rig(PolicyMachine::h200(2, 1000, 10'000), limits);
  Plan plan;
  rig.add(250, gpu0);
  for (int i = 0; i < 3; ++i) {
    const ChunkId cold = rig.add(250, gpu0), hot = rig.add(250, node_of_two);
    rig.heat(hot, gpu0, 1);
    plan.evict(cold, node_of_two, "test");
    plan.move(hot, gpu0, 3 - i, "test");
  }
  const PlanOutcome outcome = rig.plan(plan);
  EXPECT_EQ(describe(outcome.accepted), "1 to 2, 3 to 2, 2 to 0 after 1, 4 to 0 after 3");
  EXPECT_EQ(describe(outcome.refused), "5 not_needed, 6 stall_budget");
  EXPECT_EQ(rig.carry_out(), 4u);
}

// A swap takes 400 us and the burst is 300 us: it starts when the budget is full and leaves a debt.
TEST(PlannerBudget, ASwapLargerThanTheBurstLeavesADebt) {
  PlannerLimits limits = no_limits();
  limits.stall_share = 0.01;
  limits.stall_burst = 300us;
  PlannerRig rig(PolicyMachine::h200(2, 250, 10'000), limits);
  const ChunkId cold = rig.add(250, gpu0), hot = rig.add(250, node_of_two);
  rig.heat(hot, gpu0, 1);
  Plan plan;
  plan.evict(cold, node_of_two, "test");
  plan.move(hot, gpu0, 1, "test");
  EXPECT_EQ(describe(rig.plan(plan).accepted), "0 to 2, 1 to 0 after 0");
  EXPECT_EQ(rig.carry_out(), 2u);
  const ChunkId other = rig.add(100, node_of_two);
  Plan more;
  more.move(other, gpu_place(1), 1, "test");
  EXPECT_EQ(describe(rig.plan(more).refused), "2 stall_budget");
}

TEST(PlannerBudget, RefusedMovesSpendNothing) {
  PlannerLimits limits = no_limits();
  limits.route_bytes_s = 1;
  limits.route_burst_bytes = 1500;
  PlannerRig rig = rig_of(limits);
  const ChunkId fills = rig.add(600, node_of_two), second = rig.add(400, node_of_two);
  rig.add(500, gpu0);
  EXPECT_EQ(rig.try_move(fills, gpu0), no_room);
  EXPECT_EQ(rig.try_move(fills, gpu0), no_room);
  EXPECT_EQ(rig.try_move(fills, gpu0), no_room);
  EXPECT_EQ(rig.try_move(second, gpu0), std::nullopt);
}

TEST(PlannerBudget, LimitsChangeWhileItRuns) {
  PlannerRig rig = rig_of(no_limits());
  const ChunkId chunk = rig.add(1, node_of_two);
  rig.move_now(chunk, gpu0);
  PlannerLimits limits = no_limits();
  limits.least_residence = 10s;
  rig.planner().set_limits(limits);
  rig.advance(9s);
  EXPECT_EQ(rig.try_move(chunk, node_of_two), cooldown);
  rig.planner().set_limits(no_limits());
  EXPECT_EQ(rig.try_move(chunk, node_of_two), std::nullopt);
}

// Last used 3, 2 and 1 s ago, one is still hot; 250 bytes are needed.
TEST(PlannerPressure, TheLongestIdleGoFirst) {
  PlannerRig rig = rig_of(no_limits());
  const ChunkId warm = rig.add(100, gpu0), cold = rig.add(100, gpu0), coldest = rig.add(100, gpu0);
  const ChunkId pinned_one = rig.add(100, gpu0);
  rig.tables().row(pinned_one).movable = false;
  rig.advance(1s);
  rig.heat(coldest, gpu0, 1);
  rig.advance(1s);
  rig.heat(cold, gpu0, 1);
  rig.advance(1s);
  rig.heat(warm, gpu0, 1);
  rig.advance(1s);
  Plan plan;
  EXPECT_EQ(
      rig.planner().complete_pressure({gpu0, 150, gpu0}, rig.snapshot(), rig.tables().idle(), plan),
      200u);
  EXPECT_EQ(proposals(plan), "chunk 2 to 1, chunk 1 to 1")
      << "to the peer: it is faster than the host";
  EXPECT_EQ(rig.plan(plan).accepted.size(), 2u);
}

TEST(PlannerPressure, OfEquallyIdleTheLeastUsedAByteGoesFirst) {
  PlannerRig rig = rig_of(no_limits());
  const ChunkId hot = rig.add(100, gpu0), cool = rig.add(400, gpu0);
  rig.heat(hot, gpu0, 2);
  rig.heat(cool, gpu0, 1);  // More bytes per second, but fewer per byte of the chunk.
  Plan plan;
  rig.planner().complete_pressure({gpu0, 1, gpu0}, rig.snapshot(), rig.tables().idle(), plan);
  EXPECT_EQ(proposals(plan), "chunk 1 to 1");
}

// More are equally idle than are compared, and the first of them cannot go.
TEST(PlannerPressure, PassesOverWhatCannotGoAmongManyThatAreEquallyIdle) {
  PlannerRig rig = rig_of(no_limits());
  std::vector<ChunkId> chunks;
  for (int i = 0; i < 300; ++i) chunks.push_back(rig.add(1, gpu0));
  for (int i = 0; i < 299; ++i)
    rig.tables().row(chunks[static_cast<std::size_t>(i)]).movable = false;
  Plan plan;
  EXPECT_EQ(
      rig.planner().complete_pressure({gpu0, 1, gpu0}, rig.snapshot(), rig.tables().idle(), plan),
      1u);
  EXPECT_EQ(proposals(plan), "chunk 299 to 1");
}

TEST(PlannerPressure, AddsNothingIfThePolicyDeclinesAndTheRestCanGoElsewhere) {
  PlannerRig rig = rig_of(no_limits());
  rig.add(300, gpu0);
  rig.add(300, gpu0);
  Plan plan;
  plan.evict(ChunkId{0}, gpu1, "the policy's");
  plan.decline();
  EXPECT_EQ(rig.planner().complete_pressure({gpu0, 600, gpu0, true}, rig.snapshot(),
                                            rig.tables().idle(), plan),
            300u);
  EXPECT_EQ(proposals(plan), "chunk 0 to 1");
  EXPECT_EQ(rig.planner().complete_pressure({gpu0, 600, gpu0, false}, rig.snapshot(),
                                            rig.tables().idle(), plan),
            600u)
      << "it has to be there";
}

TEST(PlannerPressure, CountsWhatThePolicyWishesAndFillsUpPlaceAfterPlace) {
  PlannerRig rig = rig_of(no_limits());
  const ChunkId a = rig.add(300, gpu0), b = rig.add(300, gpu0), c = rig.add(300, gpu0);
  rig.add(600, gpu1);
  Plan plan;
  plan.evict(b, gpu1, "the policy's");
  plan.evict(b, node_of_two, "twice is once");
  plan.evict(ChunkId{77}, node_of_two, "nonsense");
  EXPECT_EQ(
      rig.planner().complete_pressure({gpu0, 600, gpu0}, rig.snapshot(), rig.tables().idle(), plan),
      600u);
  EXPECT_EQ(proposals(plan), "chunk 1 to 1, chunk 1 to 2, chunk 77 to 2, chunk 0 to 2")
      << "400 were free at the peer, 300 of these are the policy's";
  EXPECT_EQ(rig.planner().complete_pressure({gpu0, 5000, gpu0}, rig.snapshot(), rig.tables().idle(),
                                            plan),
            900u);
  EXPECT_EQ(rig.plan(plan).accepted.size(), 3u);
  EXPECT_TRUE(rig.planner().is_moving(a) && rig.planner().is_moving(c));
}

}  // namespace
}  // namespace vma
