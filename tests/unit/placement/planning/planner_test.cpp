/// Goal: the planner refuses moves for the documented reasons, one case per reason. Method:
/// hand-computed cases on two GPUs of 8 bytes and a host node of 64, with the rates of H200s; the
/// small sizes keep the sums readable.

#include "unit/placement/planning/planner_rig.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace vma {
namespace {

using namespace std::chrono_literals;
using enum MoveRefusal::Why;

PolicyMachine gpu_pair() {
  return PolicyMachine::h200(2, 8, 64);
}

TEST(Planner, AcceptsAMoveThatHasRoomAndAReason) {
  PlannerRig rig(gpu_pair());
  const ChunkId chunk = rig.add(8, node_of_two);
  EXPECT_EQ(rig.try_move(chunk, gpu0), std::nullopt);
  EXPECT_EQ(rig.carry_out(), 1u);
  EXPECT_EQ(rig.at(chunk), gpu0);
}

TEST(Planner, RefusesWhatMakesNoSense) {
  PlannerRig rig(gpu_pair());
  const ChunkId chunk = rig.add(1, node_of_two);
  const ChunkId gone = rig.add(1, node_of_two);
  rig.tables().remove(gone, 1);
  EXPECT_EQ(rig.try_move(gone, gpu0), unknown_chunk);
  EXPECT_EQ(rig.try_move(ChunkId{1000}, gpu0), unknown_chunk);
  EXPECT_EQ(rig.try_move(chunk, PlaceId{3}), unknown_place);
  EXPECT_EQ(rig.try_move(chunk, node_of_two), same_place);
  EXPECT_EQ(rig.try_move(chunk, gpu0, 1, ""), no_reason);
  EXPECT_EQ(rig.try_move(chunk, gpu0, -1), bad_value);
  EXPECT_EQ(rig.try_move(chunk, gpu0, std::nan("")), bad_value);
  EXPECT_EQ(rig.try_move(chunk, gpu0, std::numeric_limits<double>::infinity()), bad_value);
  EXPECT_EQ(rig.try_move(chunk, gpu0, 0), std::nullopt);
}

TEST(Planner, RefusesChunksThatMayNotMove) {
  PlannerRig rig(gpu_pair());
  const ChunkId chunk = rig.add(1, node_of_two);
  ChunkRow& row = rig.tables().row(chunk);
  row.movable = false;
  EXPECT_EQ(rig.try_move(chunk, gpu0), pinned);
  row.movable = true;
  row.in_scope = false;
  EXPECT_EQ(rig.try_move(chunk, gpu0), not_in_scope);
  row.in_scope = true;
  row.parked = true;
  EXPECT_EQ(rig.try_move(chunk, gpu0), parked);
  row.parked = false;
  row.moving = true;
  EXPECT_EQ(rig.try_move(chunk, gpu0), already_moving);
  row.moving = false;
  EXPECT_EQ(rig.try_move(chunk, gpu0), std::nullopt);
}

TEST(Planner, RefusesAChunkThatItMovesAlready) {
  PlannerRig rig(gpu_pair());
  const ChunkId chunk = rig.add(1, node_of_two);
  Plan twice;
  twice.move(chunk, gpu0, 1, "test");
  twice.move(chunk, gpu1, 2, "test");
  const PlanOutcome outcome = rig.plan(twice);
  EXPECT_EQ(describe(outcome.accepted), "0 to 0");
  EXPECT_EQ(describe(outcome.refused), "0 already_moving");
  EXPECT_EQ(rig.try_move(chunk, gpu1), already_moving) << "accepted, not started";
  rig.start(outcome.accepted.front().number);
  EXPECT_EQ(rig.try_move(chunk, gpu1), already_moving) << "started";
  rig.end(outcome.accepted.front().number);
  EXPECT_EQ(rig.try_move(chunk, gpu1), std::nullopt);
}

TEST(Planner, RefusesPlacesWithoutAWay) {
  PolicyMachine machine = gpu_pair();
  machine.costs.copy_rate(gpu0, gpu1) = 0;
  machine.costs.access_rate(gpu1, gpu0) = 0;
  PlannerRig rig(machine);
  const ChunkId here = rig.add(1, gpu0);
  EXPECT_EQ(rig.try_move(here, gpu1), unreachable) << "nothing copies there";
  const ChunkId used = rig.add(1, node_of_two);
  rig.heat(used, gpu0, 1);
  rig.heat(used, gpu1, 1);
  EXPECT_EQ(rig.try_move(used, gpu0), unreachable) << "gpu1 uses it and cannot reach gpu0";
  EXPECT_EQ(rig.try_move(used, gpu1), std::nullopt);
}

TEST(Planner, KeepsAChunkForTheLeastResidence) {
  PlannerLimits limits = no_limits();
  limits.least_residence = 1s;
  PlannerRig rig(gpu_pair(), limits);
  const ChunkId chunk = rig.add(1, node_of_two);
  rig.move_now(chunk, gpu0);
  rig.advance(999ms);
  EXPECT_EQ(rig.try_move(chunk, gpu1), cooldown);
  rig.advance(1ms);
  EXPECT_EQ(rig.try_move(chunk, gpu1), std::nullopt);
}

// Three moves at 1.0, 1.5 and 2.0 s are within two seconds: the chunk is held until 3.0 s.
TEST(Planner, HoldsAChunkThatGoesToAndFro) {
  PlannerLimits limits = no_limits();
  limits.thrash_moves = 3;
  PlannerRig rig(gpu_pair(), limits);
  const ChunkId chunk = rig.add(1, gpu1);
  rig.move_now(chunk, gpu0);
  rig.advance(500ms);
  rig.move_now(chunk, gpu1);
  rig.advance(500ms);
  rig.move_now(chunk, gpu0);
  EXPECT_EQ(rig.planner().recent_moves(chunk, rig.tables().now()), 3);
  EXPECT_EQ(rig.try_move(chunk, gpu1), thrashing);
  rig.advance(999ms);
  EXPECT_EQ(rig.try_move(chunk, gpu1), thrashing);
  rig.advance(1ms);
  EXPECT_EQ(rig.try_move(chunk, gpu1), std::nullopt);
}

TEST(Planner, LetsSlowMovesAndNewChunksOfANumberBe) {
  PlannerLimits limits = no_limits();
  limits.thrash_moves = 3;
  PlannerRig rig(gpu_pair(), limits);
  const ChunkId chunk = rig.add(1, gpu1);
  rig.move_now(chunk, gpu0);
  rig.advance(1001ms);
  rig.move_now(chunk, gpu1);
  rig.advance(1001ms);
  rig.move_now(chunk, gpu0);  // The first move is no longer in the window.
  rig.move_now(chunk, gpu1);  // Three again.
  ASSERT_EQ(rig.try_move(chunk, gpu0), thrashing);
  rig.planner().note_gone(chunk);
  EXPECT_EQ(rig.try_move(chunk, gpu0), std::nullopt) << "the number is another chunk's";
}

TEST(Planner, RefusesWhatIsBeyondTheBoundOfAPlan) {
  PlannerLimits limits = no_limits();
  limits.moves_max = 2;
  PlannerRig rig(gpu_pair(), limits);
  Plan plan;
  for (int i = 0; i < 4; ++i) plan.move(rig.add(1, node_of_two), gpu0, 1 + i, "test");
  const PlanOutcome outcome = rig.plan(plan);
  EXPECT_EQ(describe(outcome.accepted), "1 to 0, 0 to 0");
  EXPECT_EQ(describe(outcome.refused), "2 plan_too_long, 3 plan_too_long");
}

// 8 bytes of room; proposals of 4 bytes worth 8 (2 per byte), 4 worth 4, 4 worth 4, and 8 worth 12
// (1.5 per byte).
TEST(Planner, GivesRoomToTheGreatestValueAByteThenTheLowestNumber) {
  PlannerRig rig(gpu_pair());
  Plan plan;
  const ChunkId second = rig.add(4, node_of_two), third = rig.add(4, node_of_two),
                best = rig.add(4, node_of_two);
  const ChunkId large = rig.add(8, node_of_two);
  plan.move(third, gpu0, 4, "test");
  plan.move(second, gpu0, 4, "test");
  plan.move(large, gpu0, 12, "test");
  plan.move(best, gpu0, 8, "test");
  const PlanOutcome outcome = rig.plan(plan);
  EXPECT_EQ(describe(outcome.accepted), "2 to 0, 0 to 0");
  EXPECT_EQ(describe(outcome.refused), "1 no_room, 3 no_room");
}

TEST(Planner, RefusesAVictimNoColderThanWhatComes) {
  PlannerRig rig(gpu_pair());
  const ChunkId victim = rig.add(8, gpu0), comes = rig.add(8, node_of_two);
  rig.heat(victim, gpu0, 2);
  rig.heat(comes, gpu0, 2);
  Plan plan;
  plan.evict(victim, node_of_two, "test");
  plan.move(comes, gpu0, 1, "test");
  EXPECT_EQ(describe(rig.plan(plan).refused), "0 not_colder, 1 no_room") << "as hot is not colder";
  rig.heat(comes, gpu0, 0.1);
  EXPECT_EQ(describe(rig.plan(plan).accepted), "0 to 2, 1 to 0 after 0");
  rig.carry_out();
  EXPECT_EQ(rig.at(comes), gpu0);
}

TEST(Planner, WantsVictimsColderByTheFactor) {
  PlannerLimits limits = no_limits();
  limits.colder_factor = 2;
  PlannerRig rig(gpu_pair(), limits);
  const ChunkId victim = rig.add(8, gpu0), comes = rig.add(8, node_of_two);
  rig.heat(victim, gpu0, 2);
  rig.heat(comes, gpu0, 3);
  Plan plan;
  plan.evict(victim, node_of_two, "test");
  plan.move(comes, gpu0, 1, "test");
  EXPECT_EQ(describe(rig.plan(plan).refused), "0 not_colder, 1 no_room");
  rig.heat(comes, gpu0, 1.5);
  EXPECT_EQ(describe(rig.plan(plan).accepted), "0 to 2, 1 to 0 after 0");
}

TEST(Planner, TakesAnAnnouncedChunkForHot) {
  PlannerRig rig(gpu_pair());
  const ChunkId victim = rig.add(8, gpu0), comes = rig.add(8, node_of_two);
  rig.heat(victim, gpu0, 2);
  Hint hint;
  hint.device = gpu(0);
  hint.next_use = rig.tables().now() + 2s;
  hint.passes = 10;  // Five per second from now, which is more than two.
  rig.tables().hinted(comes, hint);
  Plan plan;
  plan.evict(victim, node_of_two, "test");
  plan.move(comes, gpu0, 1, "test");
  EXPECT_EQ(describe(rig.plan(plan).accepted), "0 to 2, 1 to 0 after 0");
}

TEST(Planner, MovesVictimsOnlyForWhatComes) {
  PlannerRig rig(gpu_pair());
  const ChunkId victim = rig.add(4, gpu0), held = rig.add(4, gpu0), comes = rig.add(8, node_of_two);
  rig.heat(comes, gpu0, 1);
  Plan plan;
  plan.evict(victim, node_of_two, "test");
  plan.move(comes, gpu0, 1, "test");
  EXPECT_EQ(describe(rig.plan(plan).refused), "0 not_needed, 2 no_room")
      << "four bytes are missing";
  plan.evict(held, node_of_two, "test");
  EXPECT_EQ(describe(rig.plan(plan).accepted), "0 to 2, 1 to 2, 2 to 0 after 0 after 1");
}

TEST(Planner, MovesVictimsForTheirOwnSakeIfNothingComes) {
  PlannerRig rig(gpu_pair());
  Plan plan;
  const ChunkId victim = rig.add(4, gpu0);
  rig.heat(victim, gpu0, 100);
  plan.evict(victim, node_of_two, "below the watermark");
  EXPECT_EQ(describe(rig.plan(plan).accepted), "0 to 2");
}

// One of two moves is not allowed, so its victim stays. The third victim belongs to no move and
// leaves.
TEST(Planner, LeavesVictimsOfWhatIsRefused) {
  PlannerRig rig(gpu_pair());
  const ChunkId first = rig.add(2, gpu0), second = rig.add(2, gpu0), third = rig.add(2, gpu0);
  rig.add(2, gpu0);
  const ChunkId comes = rig.add(2, node_of_two), held = rig.add(2, node_of_two);
  rig.heat(comes, gpu0, 1);
  rig.heat(held, gpu0, 1);
  rig.tables().row(held).movable = false;
  Plan plan;
  plan.evict(first, node_of_two, "test");
  plan.evict(second, node_of_two, "test");
  plan.move(comes, gpu0, 1, "test");
  plan.move(held, gpu0, 1, "test");
  PlannerRig same = rig;
  EXPECT_EQ(describe(same.plan(plan).refused), "1 not_needed, 5 pinned");
  plan.evict(third, node_of_two, "below the watermark");
  EXPECT_EQ(describe(rig.plan(plan).refused), "5 pinned, 2 not_needed");
}

// A victim moves to a full peer, whose own, still colder victim moves to the host.
TEST(Planner, MakesRoomForVictimsToo) {
  PlannerRig rig(gpu_pair());
  const ChunkId coldest = rig.add(8, gpu1), victim = rig.add(8, gpu0),
                comes = rig.add(8, node_of_two);
  rig.heat(victim, gpu0, 1);
  rig.heat(comes, gpu0, 2);
  Plan plan;
  plan.move(comes, gpu0, 1, "test");
  plan.evict(victim, gpu1, "test");
  plan.evict(coldest, node_of_two, "test");
  EXPECT_EQ(describe(rig.plan(plan).accepted), "0 to 2, 1 to 1 after 0, 2 to 0 after 1");
  EXPECT_EQ(rig.carry_out(), 3u);
}

// A host node of unknown size has the largest capacity that can be counted.
TEST(Planner, HasRoomWhereTheSizeIsUnknown) {
  PlannerRig rig(PolicyMachine::h200(2, 8, UINT64_MAX));
  const ChunkId chunk = rig.add(8, gpu0), other = rig.add(8, gpu1);
  rig.add(8, node_of_two);
  EXPECT_EQ(rig.try_move(chunk, node_of_two), std::nullopt);
  EXPECT_EQ(rig.carry_out(), 1u);
  Plan plan;
  EXPECT_EQ(
      rig.planner().complete_pressure({gpu1, 8, gpu1}, rig.snapshot(), rig.tables().idle(), plan),
      8u);
  ASSERT_EQ(plan.moves().size(), 1u);
  EXPECT_EQ(plan.moves()[0].chunk, other);
}

TEST(Planner, EveryReasonHasAName) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < MoveRefusal::count; ++i)
    names.insert(to_string(static_cast<MoveRefusal::Why>(i)));
  EXPECT_EQ(names.size(), MoveRefusal::count);
}

}  // namespace
}  // namespace vma
