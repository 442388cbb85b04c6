#pragma once

#include "placement/books/chunk_tables.hpp"
#include "placement/deciding/pace_guard.hpp"
#include "placement/planning/planner.hpp"

#include <vma/policy.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <variant>
#include <vector>

namespace vma {

/// Moves of one migration: adjacent chunks of one allocation, with the same target and rank.
struct PlannedMigration {
  PlaceId from{}, to{};
  std::vector<AcceptedMove> moves;
  /// The numbers passed to `DecisionPath::note_decision`, or 0.
  std::vector<std::uint64_t> decisions;
};

/// What programs reported since the last time: uses, and hints with one event a chunk, whose `hint`
/// is null: it is in the books.
struct UseReports {
  std::vector<UseEvent> uses, hints;

  bool empty() const noexcept { return uses.empty() && hints.empty(); }
  void clear() noexcept {
    uses.clear();
    hints.clear();
  }
  /// Reports the uses, and then the hints that have not expired and that no later one for another
  /// GPU has replaced.
  void tell(Policy& policy, const Snapshot& snapshot, Plan& plan) const;
};

/// The path from uses to the moves that begin, for the runtime and for replays: the books, what the
/// policy is asked and told, plans, and the order in which moves begin and end. It has no thread,
/// clock or driver: `books().set_now` sets the time; the caller runs the policy and carries the
/// moves out. Not thread-safe.
class DecisionPath {
 public:
  using PolicyCall = std::function<void(Policy&, const Snapshot&, Plan&)>;

  DecisionPath(std::vector<PlaceState> places, MachineCosts costs, const PlannerLimits& planner,
               const HeatLimits& heat, const PaceLimits& pace = {});

  ChunkTables& books() noexcept { return *books_; }
  const ChunkTables& books() const noexcept { return *books_; }
  Snapshot snapshot() const noexcept { return Snapshot(*books_); }
  const Planner& planner() const noexcept { return planner_; }
  /// Continues with a copy of the books: a policy that does not return may read the old ones for
  /// ever. Throws: std::bad_alloc; then nothing has changed.
  void leave_books();

  // --- What has happened
  /// Merges the uses into one for each chunk and GPU, in the order of chunks and then of GPUs, and
  /// enters them all into the books. Requires: their chunks are in the books.
  void fold_uses(std::vector<UseEvent>& uses);
  /// Enters a hint about the chunk for a use by `device` into the books, and adds it to those to
  /// report. Its times count from when it was given, and are capped at the end of time.
  void take_hint(ChunkId chunk, PlaceId device, Hint hint, Time given, UseReports& reports);
  /// The rows of an allocation are about to be removed: returns how many waiting moves are dropped
  /// because of it. It may be called again after it threw. Requires: no move of these rows is in
  /// progress.
  std::size_t drop_moves(ChunkId first, std::size_t chunks);
  /// The rows are removed; the policy is told at its next call. Requires: `drop_moves`.
  void gone(ChunkId first, std::size_t chunks) noexcept;

  /// How many uses programs have reported, or what else shows their progress. It decides whether
  /// moves of policies are held back (`PaceGuard`).
  void note_progress(std::uint64_t progress) noexcept { pace_.look(books_->now(), progress); }
  /// Another policy is asked from now on: its moves have not been tested.
  void forget_pace() noexcept { pace_.forget(); }
  const PaceGuard& pace() const noexcept { return pace_; }
  /// Why moves of policies are held back, for people; empty if they are not.
  std::string why_held() const;
  /// What a test of the moves has shown, once.
  std::optional<PaceVerdict> take_pace_news() noexcept { return pace_.take_news(); }

  // --- Asking the policy
  /// One call of the policy, including the notices that precede it. It owns all that it uses, so it
  /// may outlive this object.
  struct Question {
    std::function<void(Policy&)> ask;
    std::shared_ptr<Plan> proposals;  ///< Complete when `ask` has returned.
  };
  Question question(PolicyCall call);
  /// Asks in the caller's thread, as one `question` would, and allocates nothing for it. `call`:
  /// as a `PolicyCall`. What was written to `plan` counts only if the policy did not throw.
  template <typename Call>
  void ask(Policy& policy, Plan& plan, Call&& call) {
    told_.clear();
    told_.swap(notices_);
    tell(policy, told_, snapshot());
    call(policy, snapshot(), plan);
  }
  /// Where chunks of these sizes go if the policy does not decide: to the fastest places of `user`
  /// that have room, or to `user` itself, where pressure makes room. `reached`: whether all GPUs
  /// that may use them can reach a place.
  std::vector<PlaceId> first_places(PlaceId user, std::span<const std::uint64_t> chunks,
                                    const std::function<bool(PlaceId)>& reached) const;

  // --- Plans
  /// Accepted moves wait until `take_ready` lets them begin. `awaited`: a thread waits for the room
  /// that the plan makes; other plans are refused while moves are held back. Throws:
  /// std::bad_alloc; then no move of the plan waits.
  PlanOutcome accept(const Plan& plan, bool awaited);
  /// Adds victims to the plan until it makes the requested room.
  void complete_pressure(const Pressure& pressure, Plan& plan) const;
  /// Stores the number of the caller's decision that planned the move. Requires: the move waits.
  void note_decision(MoveNumber number, std::uint64_t decision);

  // --- Moves
  bool has_waiting() const noexcept { return !waiting_.empty(); }
  /// The moves that have not begun.
  std::vector<MoveNumber> waiting() const;
  /// Waiting moves from a place whose room a thread waits for.
  std::vector<MoveNumber> awaited_from(PlaceId from) const;
  /// Waiting moves that are to be given up, since moving does not pay. No thread waits for them.
  std::vector<MoveNumber> not_paying() const;
  /// Null if the move does not wait.
  const AcceptedMove* find_waiting(MoveNumber number) const;
  /// In the order in which they begin: moves that make room for policies' moves last, equal ones by
  /// number; only those that a thread waits for while moves are held back. Numbers follow the order
  /// of a plan: victims as the moves need them, moves by value.
  std::vector<MoveNumber> ready() const;
  /// Begins those of the moves in `ready` that can begin now, in groups, and reserves their room:
  /// each with the moves of its neighbours between the same places, unless these are worth much
  /// less. Of the victims of a place that no thread waits for, one group is in progress at a time:
  /// the moves that it makes room for begin before the next group. Throws: std::bad_alloc; then
  /// `groups` has all that have begun.
  void take(std::span<const MoveNumber> ready, std::vector<PlannedMigration>& groups);
  /// Returns how many waiting moves are dropped because this one failed. Throws: std::bad_alloc;
  /// then nothing has changed.
  std::size_t end(const AcceptedMove& move, bool moved, Time took, Time stall);
  /// What came of moves that spent the stall budget of later, since the last call.
  std::vector<StallAhead::Outcome> judge_ahead() { return planner_.judge_ahead(books_->now()); }
  /// How far carrying out moves may overdraw the stall budget now; see `Planner::stall_credit`.
  Time stall_credit() const;
  /// Drops a waiting move, and the moves that wait for it.
  void give_up(MoveNumber number);

 private:
  /// What the policy is told before its next call, in order.
  using Notice = std::variant<ChunkId, MoveResult>;  // A chunk: it was removed.
  /// An accepted move that has not begun.
  struct Waiting {
    AcceptedMove move;
    std::uint64_t decision = 0;  // The decision that planned it.
  };

  static void tell(Policy& policy, std::span<const Notice> notices, const Snapshot& snapshot);
  PlanOutcome hold_back(const Plan& plan) const;
  bool joins(const PlannedMigration& group, const AcceptedMove& first,
             const AcceptedMove& move) const;
  void begin(MoveNumber number, PlannedMigration& group, bool in_front);
  void add_neighbours(const AcceptedMove& first, bool in_front,
                      const std::map<ChunkId, MoveNumber>& ready, PlannedMigration& group);
  void sort_uses(std::vector<UseEvent>& uses);
  bool forget_waiting(MoveNumber number);

  std::shared_ptr<ChunkTables> books_;  // A policy that overran keeps its own copy.
  Planner planner_;
  PaceGuard pace_;
  std::map<MoveNumber, Waiting> waiting_;
  std::vector<std::uint32_t> leaving_;  // By place, moves from there in progress that go last.
  std::vector<Notice> notices_;
  std::vector<Notice> told_;              // Buffer of `ask`.
  std::vector<std::uint64_t> use_order_;  // Buffers of `fold_uses`.
  std::vector<UseEvent> sorted_uses_;
};

}  // namespace vma
