#pragma once

#include "placement/planning/move_budgets.hpp"
#include "placement/planning/move_history.hpp"
#include "placement/planning/moves_under_way.hpp"
#include "placement/planning/planned_move.hpp"
#include "placement/planning/planner_limits.hpp"
#include "placement/planning/room_fitting.hpp"

#include <vma/policy.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace vma {

struct OrderedMove;

/// Turns what a policy wishes into moves that can be made: refuses what cannot or should not be,
/// with a reason, and orders the rest so that no place ever holds more than it can. Both ends hold
/// a chunk while it moves.
///
/// Who carries the moves out keeps both books in step, a move at a time: `ChunkTables::expect`,
/// then `note_started`; when it has ended `expect_no_more` and, if it moved, `moved`, then
/// `note_ended`. An accepted move has its room until then. Planning costs in proportion to the
/// plan, not to the chunks. Pure; one thread at a time calls it.
class Planner {
 public:
  explicit Planner(const PlannerLimits& limits = {}) : limits_(limits) {}

  /// Replaces the limits, from the next plan on.
  void set_limits(const PlannerLimits& limits) { limits_ = limits; }
  const PlannerLimits& limits() const noexcept { return limits_; }

  /// Ensures: each wish is accepted or refused, once. What is accepted is under way from here on.
  /// Throws: std::bad_alloc; then nothing is under way that was not before.
  PlanOutcome plan(const Plan& plan, const Snapshot& snapshot);
  /// The caller cannot carry the moves of a plan out after all. Requires: it is the last plan, and
  /// none of them has started.
  void take_back(std::span<const AcceptedMove> accepted) noexcept;

  /// Adds victims to a plan that shall make `pressure.bytes` free and makes less: the coldest
  /// first, by the time since their last use and then by use a byte, each to the fastest other
  /// place of its hottest user that has room. Wishes that would be refused count for nothing.
  /// Returns how many bytes the plan makes free. Looks at every chunk.
  std::uint64_t complete_pressure(const Pressure& pressure, const Snapshot& snapshot,
                                  Plan& plan) const;

  /// Whether an accepted move can begin: those that it waits for have ended, and its room has not
  /// been taken by somebody who did not ask.
  bool may_start(MoveNumber number, const Snapshot& snapshot) const;
  /// Requires: `may_start`; the tables expect its bytes at its target.
  void note_started(MoveNumber number);
  /// Requires: it is under way, started or given up; the tables know what came of it. Returns the
  /// moves that wait for it and are not made because it failed; nothing is to be noted of these.
  std::vector<MoveNumber> note_ended(MoveNumber number, bool moved, Time now);
  /// The chunk is gone or about to be another's. Requires: none of its moves has started. Returns
  /// the moves that are not made because of that, its own among them.
  std::vector<MoveNumber> note_gone(ChunkId chunk);

  /// Accepted moves that have not ended.
  std::size_t under_way() const noexcept { return under_way_.size(); }
  bool is_moving(ChunkId chunk) const { return under_way_.is_moving(chunk); }
  /// For `ChunkRow::recent_moves`.
  std::uint8_t recent_moves(ChunkId chunk, Time now) const;

 private:
  struct Round;

  void check_wishes(const Plan& plan, const Snapshot& snapshot, Round& round);
  bool choose(const Snapshot& snapshot, Round& round, bool with_detours) const;
  void refuse_over_budget(const Snapshot& snapshot, Round& round) const;
  std::vector<std::int64_t> room(const Snapshot& snapshot) const;
  void accept(const Plan& plan, const Round& round, const Snapshot& snapshot, PlanOutcome& outcome);
  void accept(const OrderedMove& move, const Plan& plan, const Round& round, std::uint64_t first,
              PlanOutcome& outcome);

  PlannerLimits limits_;
  MoveBudgets budgets_;
  MoveHistory history_;
  MovesUnderWay under_way_;
  std::uint64_t last_number_ = 0;
};

}  // namespace vma
