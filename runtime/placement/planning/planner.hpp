#pragma once

#include "placement/books/idle_order.hpp"
#include "placement/planning/move_budgets.hpp"
#include "placement/planning/moves_so_far.hpp"
#include "placement/planning/planned_move.hpp"
#include "placement/planning/planner_limits.hpp"
#include "placement/planning/room_fitting.hpp"
#include "placement/planning/stall_ahead.hpp"

#include <vma/policy.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace vma {

struct OrderedMove;

/// Turns the proposals of a policy into moves that can be made: refuses those that cannot or should
/// not be, with a reason, and orders the rest so that no place ever exceeds its capacity. Both ends
/// hold a chunk while it moves.
///
/// The caller that carries the moves out keeps both books consistent, one move at a time:
/// `ChunkTables::expect`, then `note_started`; when it has ended `expect_no_more` and, if it moved,
/// `moved`, then `note_ended`. An accepted move has its room until then. Planning costs in
/// proportion to the plan, not to the number of chunks. Pure; one thread at a time calls it.
class Planner {
 public:
  explicit Planner(const PlannerLimits& limits = {}) : limits_(limits) {}

  /// Replaces the limits, from the next plan on.
  void set_limits(const PlannerLimits& limits) { limits_ = limits; }
  const PlannerLimits& limits() const noexcept { return limits_; }

  /// Ensures: each proposal is accepted or refused, once. Accepted moves are in progress from here
  /// on. Throws: std::bad_alloc; then no further moves are in progress.
  PlanOutcome plan(const Plan& plan, const Snapshot& snapshot);
  /// Undoes a plan that the caller cannot carry out after all. Requires: it is the last plan, and
  /// none of its moves has started.
  void take_back(std::span<const AcceptedMove> accepted) noexcept;

  /// Adds victims to a plan until it frees `pressure.bytes`: the coldest first, by the time since
  /// their last use and then by use per byte, each to the fastest other place of its hottest user
  /// that has room. Of more than 256 chunks that are idle for the same time, only so many are
  /// compared by their use. Proposals that would be refused do not count. Adds none if the plan
  /// declines and what needs the room can go elsewhere. Returns how many bytes the plan frees.
  /// Requires: `idle` belongs to the books of `snapshot`. Costs in proportion to the chunks that it
  /// takes, passes over or compares, not to all.
  std::uint64_t complete_pressure(const Pressure& pressure, const Snapshot& snapshot,
                                  const IdleOrder& idle, Plan& plan) const;

  /// Whether an accepted move can begin: those that it waits for have ended, and other allocations
  /// have not taken its room.
  bool may_start(MoveNumber number, const Snapshot& snapshot) const;
  /// Requires: `may_start`; the tables expect its bytes at its target.
  void note_started(MoveNumber number);
  /// Requires: it is in progress, started or given up; the tables reflect the outcome. Returns the
  /// moves dropped because they wait for it and it failed; do not call this for them.
  std::vector<MoveNumber> note_ended(MoveNumber number, bool moved, Time now);
  /// The chunk is freed or about to be reused. Requires: none of its moves has started. Returns the
  /// moves dropped because of that, including its own.
  std::vector<MoveNumber> note_gone(ChunkId chunk);

  /// Takes in a use: moves that spent the stall budget of later are judged by what they save.
  void note_use(const UseEvent& use, const MachineCosts& costs) noexcept {
    ahead_.used(use, costs);
  }
  /// What came of such moves, since the last call.
  std::vector<StallAhead::Outcome> judge_ahead(Time now) { return ahead_.judge(now, limits_); }
  /// How far carrying out moves may overdraw the stall budget now, in seconds: the credit while
  /// moves that do so are in progress, else 0.
  double stall_credit() const { return ahead_.under_way() ? ahead_.credit(limits_) : 0; }
  /// What is left of the stall budget, in seconds; negative if it is overdrawn.
  double stall_left() const noexcept { return budgets_.stall_left(); }

  /// Whether other moves wait for the room that this one leaves, or for its chunk. Requires: it is
  /// in progress.
  bool is_awaited(MoveNumber number) const { return !under_way_.entry(number).dependents.empty(); }
  /// Number of accepted moves that have not ended.
  std::size_t under_way() const noexcept { return under_way_.size(); }
  bool is_moving(ChunkId chunk) const { return under_way_.is_moving(chunk); }
  /// For `ChunkRow::recent_moves`.
  std::uint8_t recent_moves(ChunkId chunk, Time now) const;

 private:
  struct Round;

  void check_proposals(const Plan& plan, const Snapshot& snapshot, Round& round);
  bool choose(const Plan& plan, const Snapshot& snapshot, Round& round, bool with_detours) const;
  void refuse_over_budget(const Plan& plan, const Snapshot& snapshot, Round& round) const;
  void open_advance(const Round& round, const Snapshot& snapshot, PlanOutcome& outcome);
  std::vector<std::int64_t> room(const Snapshot& snapshot) const;
  void accept(const Plan& plan, const Round& round, const Snapshot& snapshot, PlanOutcome& outcome);
  void accept(const OrderedMove& move, const Plan& plan, const Round& round, std::uint64_t first,
              PlanOutcome& outcome);

  PlannerLimits limits_;
  MoveBudgets budgets_;
  MoveHistory history_;
  MovesUnderWay under_way_;
  StallAhead ahead_;
  std::uint64_t last_number_ = 0;
};

}  // namespace vma
