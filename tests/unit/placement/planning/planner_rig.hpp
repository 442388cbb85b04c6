#pragma once

#include "placement/planning/planner.hpp"
#include "unit/placement/policies/policy_rig.hpp"

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace vma {

/// Places of the machines in planner tests, which have two or three GPUs.
inline constexpr PlaceId gpu0 = gpu_place(0), gpu1 = gpu_place(1), gpu2 = gpu_place(2);
inline constexpr PlaceId node_of_two = gpu_place(2);

/// Limits so wide that only the rule under test refuses anything.
PlannerLimits no_limits();

/// Books and a planner on a virtual clock; the test carries out moves by hand. Does what the
/// scheduler does around a planner, and fails the test if a place exceeds its capacity or a move
/// starts that must not.
class PlannerRig {
 public:
  explicit PlannerRig(const PolicyMachine& machine, const PlannerLimits& limits = no_limits());

  /// Adds an allocation of one chunk.
  ChunkId add(std::uint64_t bytes, PlaceId at);
  /// Afterwards each byte of the chunk counts as used `per_byte` times a second, by both averages.
  void heat(ChunkId chunk, PlaceId device, double per_byte);
  void advance(Time time) { tables_.set_now(tables_.now() + time); }

  PlanOutcome plan(const Plan& proposals);
  /// Plans one move and returns why it is refused; nothing if it is accepted.
  std::optional<MoveRefusal::Why> try_move(ChunkId chunk, PlaceId to, double value = 1,
                                           const std::string& reason = "test");

  void start(MoveNumber number);
  /// Returns the moves that fail with it.
  std::vector<MoveNumber> end(MoveNumber number, bool moved = true);
  /// Makes all accepted moves. `pick(n)` returns a number below n, which selects the next of n
  /// possible steps; `fails(n)` tells whether a move fails. Without them, 0 and no. Returns how
  /// many moves were made.
  std::size_t carry_out(const std::function<std::size_t(std::size_t)>& pick = {},
                        const std::function<bool()>& fails = {});
  /// Starts and ends the one move, for tests of later events.
  void move_now(ChunkId chunk, PlaceId to);

  PlaceId at(ChunkId chunk) const { return Snapshot(tables_).chunk(chunk).at; }
  std::uint64_t used(PlaceId at) const { return Snapshot(tables_).place(at).used_bytes; }
  Snapshot snapshot() const { return Snapshot(tables_); }
  ChunkTables& tables() { return tables_; }
  Planner& planner() { return planner_; }

 private:
  void check_capacity() const;

  ChunkTables tables_;
  Planner planner_;
  std::map<MoveNumber, AcceptedMove> accepted_;  // Those not yet ended.
  std::set<MoveNumber> started_;
  std::uint32_t last_allocation_ = 0;
};

/// "3 to 1, 4 to 0 after 3": moves by chunk, and what each of them waits for.
std::string describe(const std::vector<AcceptedMove>& moves);
/// "3 no_room, 4 cooldown".
std::string describe(const std::vector<RefusedMove>& moves);

}  // namespace vma
