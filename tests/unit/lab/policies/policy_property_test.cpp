/// Goal: every built-in policy makes valid proposals, which may only be refused for lack of room or
/// time, and comes to rest on constant input. Method: each policy behind the planner, with random
/// uses by seed.

#include "lab/policies/lab_policies.hpp"
#include "unit/placement/planning/planner_rig.hpp"

#include <gtest/gtest.h>

#include <random>

namespace vma {
namespace {

using namespace std::chrono_literals;

bool is_nonsense(MoveRefusal::Why reason) {
  switch (reason) {
    case MoveRefusal::unknown_chunk:
    case MoveRefusal::unknown_place:
    case MoveRefusal::same_place:
    case MoveRefusal::no_reason:
    case MoveRefusal::bad_value:
    case MoveRefusal::pinned:
    case MoveRefusal::parked:
    case MoveRefusal::unreachable:
    case MoveRefusal::plan_too_long: return true;
    default: return false;
  }
}

/// A policy with its own books and planner: three GPUs, each with room for half of the chunks.
class PolicyLoop {
 public:
  PolicyLoop(const PolicyKind& kind, std::uint64_t seed)
      : rig_(PolicyMachine::h200(3, 24 * mib, 200 * mib), PlannerLimits{}),
        policy_(make_policy(kind, "")),
        dice_(seed) {
    for (int i = 0; i < 48; ++i) {
      const PlaceId at = gpu_place(dice_() % 4);
      const std::uint64_t bytes = (1 + dice_() % 2) * mib;
      const bool fits = rig_.snapshot().place(at).free_bytes() >= bytes;
      chunks_.push_back(rig_.add(bytes, fits ? at : gpu_place(3)));
      rig_.tables().row(chunks_.back()).movable = i % 12 != 0;
      users_.push_back(gpu_place(dice_() % 3));
      passes_.push_back(static_cast<double>(dice_() % 20));
    }
  }

  /// Makes another set of chunks hot, on other GPUs.
  void drift() {
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      users_[i] = gpu_place(dice_() % 3);
      passes_[i] = static_cast<double>(dice_() % 20);
    }
  }

  /// One tick of 10 ms with the same uses as the last. Returns the number of accepted moves.
  std::size_t tick() {
    rig_.advance(10ms);
    std::size_t moves = 0;
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      if (passes_[i] == 0) continue;
      const double bytes =
          passes_[i] * static_cast<double>(rig_.snapshot().chunk(chunks_[i]).bytes);
      rig_.tables().used(chunks_[i], users_[i], bytes, 0);
      Plan plan;
      policy_->on_use({chunks_[i], users_[i], bytes, 0}, rig_.snapshot(), plan);
      moves += make(plan);
    }
    Plan plan;
    policy_->on_tick(rig_.snapshot(), plan);
    moves += make(plan);
    rig_.tables().clear_changed();
    return moves;
  }

  void press() {
    const Pressure pressure{gpu_place(dice_() % 3), 4 * mib, gpu_place(dice_() % 3)};
    Plan plan;
    policy_->on_pressure(pressure, rig_.snapshot(), plan);
    rig_.planner().complete_pressure(pressure, rig_.snapshot(), rig_.tables().idle(), plan);
    make(plan);
  }

 private:
  static constexpr std::uint64_t mib = 1 << 20;

  std::size_t make(const Plan& plan) {
    if (plan.empty()) return 0;
    const PlanOutcome outcome = rig_.plan(plan);
    for (const RefusedMove& move : outcome.refused)
      EXPECT_FALSE(is_nonsense(move.reason)) << to_string(move.reason) << ": " << move.detail;
    rig_.carry_out([&](std::size_t n) { return dice_() % n; });
    for (const AcceptedMove& move : outcome.accepted) {
      policy_->on_result({move.chunk, move.from, move.to, true, 200us, 200us}, rig_.snapshot());
    }
    return outcome.accepted.size();
  }

  PlannerRig rig_;
  std::unique_ptr<Policy> policy_;
  std::mt19937_64 dice_;
  std::vector<ChunkId> chunks_;
  std::vector<PlaceId> users_;
  std::vector<double> passes_;
};

TEST(EveryPolicy, PlansNoNonsense) {
  for (const PolicyKind& kind : lab_policies().kinds()) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      SCOPED_TRACE(testing::Message() << kind.name << ", seed " << seed);
      PolicyLoop loop(kind, seed);
      for (int phase = 0; phase < 4 && !testing::Test::HasFailure(); ++phase) {
        for (int tick = 0; tick < 50; ++tick) loop.tick();
        loop.press();
        loop.drift();
      }
    }
  }
}

// Thirty seconds are three long half-lives: the averages are within an eighth of their limits.
TEST(EveryPolicy, ComesToRestOnSteadyUse) {
  for (const PolicyKind& kind : lab_policies().kinds()) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      SCOPED_TRACE(testing::Message() << kind.name << ", seed " << seed);
      PolicyLoop loop(kind, seed);
      for (int tick = 0; tick < 3000; ++tick) loop.tick();
      std::size_t moves = 0;
      for (int tick = 0; tick < 500; ++tick) moves += loop.tick();
      EXPECT_EQ(moves, 0u) << "moves in the last five seconds";
    }
  }
}

}  // namespace
}  // namespace vma
