/// Goal: whatever a plan asks for, the accepted moves can be carried out in every order that they
/// allow. Method: random machines, chunks and plans, sensible or not, by seed. The rig checks after
/// each step that no place holds more than its capacity, that nothing moves that must not, and that
/// each proposal is answered once.

#include "unit/placement/planning/planner_rig.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

namespace vma {
namespace {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t n) { return engine_() % n; }
  bool one_in(std::size_t n) { return below(n) == 0; }

 private:
  std::mt19937_64 engine_;
};

PolicyMachine random_machine(Dice& dice) {
  const std::size_t gpus = 1 + dice.below(5);
  PolicyMachine machine = PolicyMachine::h200(gpus, 4 + dice.below(30), dice.below(60));
  for (std::size_t i = 0; i < gpus; ++i) {
    if (dice.one_in(8)) machine.costs.copy_rate(gpu_place(i), gpu_place(dice.below(gpus + 1))) = 0;
    if (dice.one_in(8))
      machine.costs.access_rate(gpu_place(i), gpu_place(dice.below(gpus + 1))) = 0;
  }
  machine.costs.rank();
  return machine;
}

PlannerLimits random_limits(Dice& dice) {
  PlannerLimits limits = no_limits();
  if (dice.one_in(3)) limits.least_residence = std::chrono::milliseconds(dice.below(100));
  if (dice.one_in(3)) limits.thrash_moves = 3;
  if (dice.one_in(4)) limits.route_bytes_s = 20;
  limits.route_burst_bytes = 20;
  if (dice.one_in(4)) limits.route_under_way_bytes = 10;
  if (dice.one_in(4)) limits.stall_share = 0.1;
  if (dice.one_in(4)) limits.moves_max = 1 + dice.below(20);
  return limits;
}

void fill(PlannerRig& rig, Dice& dice) {
  const Snapshot snapshot = rig.snapshot();
  for (int i = 0; i < 40; ++i) {
    const PlaceId at = gpu_place(dice.below(snapshot.places().size()));
    const std::uint64_t bytes = 1 + dice.below(6);
    if (snapshot.place(at).free_bytes() < bytes) continue;
    const ChunkId chunk = rig.add(bytes, at);
    const PlaceId user = gpu_place(dice.below(snapshot.costs().gpus()));
    if (dice.one_in(2)) rig.heat(chunk, user, static_cast<double>(dice.below(5)));
    ChunkRow& row = rig.tables().row(chunk);
    row.movable = !dice.one_in(10);
    row.parked = dice.one_in(20);
    row.in_scope = !dice.one_in(20);
  }
}

Plan random_plan(const PlannerRig& rig, Dice& dice) {
  const double odd[] = {-1, std::nan(""), std::numeric_limits<double>::infinity()};
  Plan plan;
  const std::size_t count = dice.below(40);
  for (std::size_t i = 0; i < count; ++i) {
    const ChunkId chunk{static_cast<std::uint32_t>(dice.below(rig.snapshot().chunks().size() + 2))};
    const std::size_t places = rig.snapshot().places().size() + (dice.one_in(10) ? 1 : 0);
    const PlaceId to = gpu_place(dice.below(places));
    if (dice.one_in(4)) {
      plan.evict(chunk, to, dice.one_in(20) ? "" : "a victim");
    } else {
      plan.move(chunk, to,
                dice.one_in(20) ? odd[dice.below(3)] : static_cast<double>(dice.below(9)),
                dice.one_in(20) ? "" : "a proposal");
    }
  }
  return plan;
}

/// Returns a record of what happened, to compare runs.
std::string play(std::uint64_t seed) {
  Dice dice(seed);
  PlannerRig rig(random_machine(dice), random_limits(dice));
  fill(rig, dice);
  std::string story;
  for (int round = 0; round < 6 && !testing::Test::HasFailure(); ++round) {
    const Plan plan = random_plan(rig, dice);
    const PlanOutcome outcome = rig.plan(plan);
    story += describe(outcome.accepted) + "; " + describe(outcome.refused) + "\n";
    // Sometimes the next plan comes while moves of this one are under way.
    if (dice.one_in(3)) continue;
    rig.carry_out([&](std::size_t n) { return dice.below(n); }, [&] { return dice.one_in(8); });
    rig.advance(std::chrono::milliseconds(dice.below(200)));
  }
  rig.carry_out([&](std::size_t n) { return dice.below(n); });
  return story;
}

std::uint64_t first_seed() {
  const char* text = std::getenv("VMART_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

TEST(PlannerProperty, WhatIsAcceptedCanBeCarriedOut) {
  for (std::uint64_t seed = first_seed(); seed < first_seed() + 2000; ++seed) {
    SCOPED_TRACE(testing::Message() << "VMART_SEED=" << seed);
    play(seed);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(PlannerProperty, TheSamePlanHasTheSameOutcome) {
  for (std::uint64_t seed = first_seed(); seed < first_seed() + 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "VMART_SEED=" << seed);
    EXPECT_EQ(play(seed), play(seed));
  }
}

// Full GPUs and one free byte at the host, through which every accepted ring can be resolved.
TEST(PlannerProperty, RandomExchangesOfFullGpusAllHappen) {
  std::size_t detours = 0;
  for (std::uint64_t seed = first_seed(); seed < first_seed() + 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "VMART_SEED=" << seed);
    Dice dice(seed);
    PlannerRig rig(PolicyMachine::h200(4, 4, 1));
    std::vector<PlaceId> slots;
    for (std::size_t i = 0; i < 16; ++i) {
      rig.add(1, gpu_place(i / 4));
      slots.push_back(gpu_place(i / 4));
    }
    for (std::size_t i = 15; i > 0; --i) std::swap(slots[i], slots[dice.below(i + 1)]);
    Plan plan;
    std::size_t wanted = 0;
    for (std::uint32_t i = 0; i < 16; ++i) {
      if (slots[i] == rig.at(ChunkId{i})) continue;
      plan.move(ChunkId{i}, slots[i], 1 + static_cast<double>(dice.below(5)), "exchange");
      ++wanted;
    }
    const PlanOutcome outcome = rig.plan(plan);
    EXPECT_TRUE(outcome.refused.empty()) << describe(outcome.refused);
    detours += outcome.accepted.size() - wanted;
    rig.carry_out([&](std::size_t n) { return dice.below(n); });
    for (std::uint32_t i = 0; i < 16; ++i) EXPECT_EQ(rig.at(ChunkId{i}), slots[i]);
  }
  EXPECT_GT(detours, 0u);
}

}  // namespace
}  // namespace vma
