/// Goal: moves that wait for each other's room get a correct order, including rings and moves under
/// way. Method: hand-computed cases on GPUs of 8 bytes and a host node.

#include "unit/placement/planning/planner_rig.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

using namespace std::chrono_literals;
using Leg = AcceptedMove::Leg;

TEST(PlannerOrder, AMoveWaitsForTheRoomThatAnotherLeaves) {
  PlannerRig rig(PolicyMachine::h200(2, 8, 64));
  const ChunkId leaves = rig.add(8, gpu0), comes = rig.add(8, gpu1);
  Plan plan;
  plan.move(comes, gpu0, 2, "test");
  plan.move(leaves, gpu_place(2), 1, "test");
  const PlanOutcome outcome = rig.plan(plan);
  ASSERT_EQ(describe(outcome.accepted), "0 to 2, 1 to 0 after 0");
  const MoveNumber first = outcome.accepted[0].number, second = outcome.accepted[1].number;
  EXPECT_FALSE(rig.planner().may_start(second, rig.snapshot()));
  rig.start(first);
  EXPECT_FALSE(rig.planner().may_start(second, rig.snapshot())) << "both ends hold the chunk";
  EXPECT_TRUE(rig.end(first).empty());
  EXPECT_TRUE(rig.planner().may_start(second, rig.snapshot()));
  EXPECT_EQ(rig.carry_out(), 1u);
}

TEST(PlannerOrder, WhatWaitsFallsWithAMoveThatFails) {
  PlannerRig rig(PolicyMachine::h200(2, 8, 64));
  const ChunkId leaves = rig.add(8, gpu0), comes = rig.add(8, gpu1);
  Plan plan;
  plan.move(comes, gpu0, 2, "test");
  plan.move(leaves, gpu_place(2), 1, "test");
  const PlanOutcome outcome = rig.plan(plan);
  rig.start(outcome.accepted[0].number);
  EXPECT_EQ(rig.end(outcome.accepted[0].number, false), std::vector{outcome.accepted[1].number});
  EXPECT_EQ(rig.planner().under_way(), 0u);
  EXPECT_EQ(rig.at(comes), gpu1);
  EXPECT_FALSE(rig.planner().is_moving(comes));
}

TEST(PlannerOrder, AChainOfThreeGoesFromItsEnd) {
  PlannerRig rig(PolicyMachine::h200(3, 8, 64));
  const ChunkId a = rig.add(8, gpu0), b = rig.add(8, gpu1), c = rig.add(8, gpu2);
  Plan plan;
  plan.move(a, gpu1, 3, "test");
  plan.move(b, gpu2, 2, "test");
  plan.move(c, gpu_place(3), 1, "test");
  EXPECT_EQ(describe(rig.plan(plan).accepted), "2 to 3, 1 to 2 after 2, 0 to 1 after 1");
  EXPECT_EQ(rig.carry_out(), 3u);
}

// Without room for the last move, none of the chain is possible.
TEST(PlannerOrder, AChainWithoutAnEndIsRefusedWhole) {
  PlannerRig rig(PolicyMachine::h200(3, 8, 64));
  const ChunkId a = rig.add(8, gpu0), b = rig.add(8, gpu1);
  rig.add(8, gpu2);
  Plan plan;
  plan.move(a, gpu1, 3, "test");
  plan.move(b, gpu2, 2, "test");
  EXPECT_EQ(describe(rig.plan(plan).refused), "0 no_room, 1 no_room");
}

TEST(PlannerOrder, ASwapOfFullGpusGoesOverThePeerThatIsFastest) {
  PlannerRig rig(PolicyMachine::h200(3, 8, 64));
  const ChunkId a = rig.add(8, gpu0), b = rig.add(8, gpu1);
  Plan plan;
  plan.move(a, gpu1, 2, "test");
  plan.move(b, gpu0, 1, "test");
  const PlanOutcome outcome = rig.plan(plan);
  // The less valuable chunk takes the detour, over gpu 2, which is faster than the host.
  ASSERT_EQ(describe(outcome.accepted), "1 to 2, 0 to 1 after 1, 1 to 0 after 1 after 0");
  EXPECT_EQ(outcome.accepted[0].leg, Leg::first);
  EXPECT_EQ(outcome.accepted[1].leg, Leg::direct);
  EXPECT_EQ(outcome.accepted[2].leg, Leg::second);
  EXPECT_EQ(rig.carry_out(), 3u);
  EXPECT_EQ(rig.at(a), gpu1);
  EXPECT_EQ(rig.at(b), gpu0);
}

TEST(PlannerOrder, ASwapGoesOverTheHostWhereItIsFasterThanAPeer) {
  PolicyMachine machine = PolicyMachine::h200(3, 8, 64);
  for (std::size_t i = 0; i < 3; ++i)  // As on GH200.
    machine.costs.access_rate(gpu_place(i), gpu_place(3)) = 400e9;
  PlannerRig rig(machine);
  const ChunkId a = rig.add(8, gpu0), b = rig.add(8, gpu1);
  Plan plan;
  plan.move(a, gpu1, 2, "test");
  plan.move(b, gpu0, 1, "test");
  EXPECT_EQ(describe(rig.plan(plan).accepted), "1 to 3, 0 to 1 after 1, 1 to 0 after 1 after 0");
}

TEST(PlannerOrder, ASwapWithoutAThirdPlaceIsRefused) {
  PlannerRig rig(PolicyMachine::h200(2, 8, 8));
  const ChunkId a = rig.add(8, gpu0), b = rig.add(8, gpu1);
  rig.add(1, gpu_place(2));
  Plan plan;
  plan.move(a, gpu1, 2, "test");
  plan.move(b, gpu0, 1, "test");
  const PlanOutcome outcome = rig.plan(plan);
  EXPECT_TRUE(outcome.accepted.empty());
  EXPECT_EQ(describe(outcome.refused), "0 no_room, 1 no_room");
  EXPECT_EQ(rig.planner().under_way(), 0u);
}

// The host has five bytes of room: the chunk of 4 fits there, the one of 6 does not.
TEST(PlannerOrder, TheOneThatFitsTheThirdPlaceMakesWay) {
  PlannerRig rig(PolicyMachine::h200(2, 8, 5));
  const ChunkId large = rig.add(6, gpu0), small = rig.add(4, gpu1);
  rig.add(2, gpu0);
  rig.add(2, gpu1);
  Plan plan;
  plan.move(large, gpu1, 1, "test");
  plan.move(small, gpu0, 2, "test");
  EXPECT_EQ(describe(rig.plan(plan).accepted), "1 to 2, 0 to 1 after 1, 1 to 0 after 1 after 0");
  EXPECT_EQ(rig.carry_out(), 3u);
}

// Two chunks of 4 swap with one of 8: both would have to leave, and the host has room for only one.
TEST(PlannerOrder, ARingThatNoThirdPlaceHoldsIsRefused) {
  for (const std::uint64_t host_bytes : {7u, 8u}) {
    PlannerRig rig(PolicyMachine::h200(2, 8, host_bytes));
    const ChunkId large = rig.add(8, gpu0);
    const ChunkId left = rig.add(4, gpu1), right = rig.add(4, gpu1);
    Plan plan;
    plan.move(large, gpu1, 2, "test");
    plan.move(left, gpu0, 1, "test");
    plan.move(right, gpu0, 1, "test");
    const PlanOutcome outcome = rig.plan(plan);
    EXPECT_EQ(describe(outcome.refused), host_bytes == 8 ? "" : "0 no_room, 1 no_room, 2 no_room");
    EXPECT_EQ(rig.carry_out(), host_bytes == 8 ? 5u : 0u);
  }
}

TEST(PlannerOrder, ADetourKeepsWithinReachOfAllUsers) {
  PolicyMachine machine = PolicyMachine::h200(3, 8, 64);
  machine.costs.access_rate(gpu0, gpu2) = 0;
  machine.costs.access_rate(gpu1, gpu2) = 0;
  PlannerRig rig(machine);
  const ChunkId a = rig.add(8, gpu0), b = rig.add(8, gpu1);
  rig.heat(a, gpu1, 1);
  rig.heat(b, gpu0, 1);
  Plan plan;
  plan.move(a, gpu1, 2, "test");
  plan.move(b, gpu0, 1, "test");
  EXPECT_EQ(describe(rig.plan(plan).accepted), "1 to 3, 0 to 1 after 1, 1 to 0 after 1 after 0");
}

TEST(PlannerOrder, WhatIsUnderWayKeepsItsRoom) {
  PlannerRig rig(PolicyMachine::h200(2, 8, 64));
  const ChunkId first = rig.add(5, gpu_place(2)), second = rig.add(4, gpu_place(2));
  Plan plan;
  plan.move(first, gpu0, 1, "test");
  const MoveNumber number = rig.plan(plan).accepted.front().number;
  EXPECT_EQ(rig.try_move(second, gpu0), MoveRefusal::no_room) << "accepted";
  rig.start(number);
  EXPECT_EQ(rig.try_move(second, gpu0), MoveRefusal::no_room) << "started";
  rig.end(number, false);
  EXPECT_EQ(rig.try_move(second, gpu0), std::nullopt) << "it never came";
}

TEST(PlannerOrder, RoomThatAMoveWillLeaveIsPromisedOnce) {
  PlannerRig rig(PolicyMachine::h200(2, 8, 64));
  const ChunkId leaves = rig.add(8, gpu0), comes = rig.add(8, gpu1),
                late = rig.add(8, gpu_place(2));
  Plan plan;
  plan.move(comes, gpu0, 2, "test");
  plan.move(leaves, gpu_place(2), 1, "test");
  const PlanOutcome outcome = rig.plan(plan);
  rig.start(outcome.accepted[0].number);
  EXPECT_EQ(rig.try_move(late, gpu0), MoveRefusal::no_room);
  rig.end(outcome.accepted[0].number);
  EXPECT_EQ(rig.try_move(late, gpu0), MoveRefusal::no_room) << "free, and another's";
}

TEST(PlannerOrder, AChunkThatIsGoneTakesItsMovesWithIt) {
  PlannerRig rig(PolicyMachine::h200(2, 8, 64));
  const ChunkId leaves = rig.add(8, gpu0), comes = rig.add(8, gpu1);
  Plan plan;
  plan.move(comes, gpu0, 2, "test");
  plan.move(leaves, gpu_place(2), 1, "test");
  rig.plan(plan);
  EXPECT_EQ(rig.planner().note_gone(leaves).size(), 2u);
  EXPECT_EQ(rig.planner().under_way(), 0u);
}

TEST(PlannerOrder, APlaceOverItsCapacityTakesNothingUntilItIsWithin) {
  PlannerRig rig(PolicyMachine::h200(2, 8, 64));
  const ChunkId a = rig.add(4, gpu0), comes = rig.add(2, gpu1);
  rig.add(4, gpu0);
  rig.tables().set_capacity(gpu0, 5);
  Plan plan;
  plan.move(a, gpu_place(2), 1, "test");
  plan.move(comes, gpu0, 1, "test");
  EXPECT_EQ(describe(rig.plan(plan).refused), "1 no_room") << "4 + 2 of 5";
  EXPECT_EQ(rig.planner().under_way(), 1u);
}

}  // namespace
}  // namespace vma
