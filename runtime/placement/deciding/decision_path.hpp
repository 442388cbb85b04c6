#pragma once

#include "placement/books/chunk_tables.hpp"
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

/// Moves of one migration: neighbours in one allocation, to one place, of one rank.
struct MoveGroup {
  PlaceId from{}, to{};
  std::vector<AcceptedMove> moves;
  std::vector<std::uint64_t> decisions;  ///< As `DecisionPath::note_decision` was told, or 0.
};

/// The path from what was used to the moves that begin, for the runtime and for replays: the
/// books, what the policy is asked and told, plans, and the order in which moves begin and end. It
/// knows no thread, clock or driver: the time is what `books().set_now` was told last, whoever has
/// it runs the policy, and carries the moves out. Not thread-safe.
class DecisionPath {
 public:
  using PolicyCall = std::function<void(Policy&, const Snapshot&, Plan&)>;

  DecisionPath(std::vector<PlaceState> places, MachineCosts costs, const PlannerLimits& planner,
               const HeatLimits& heat);

  ChunkTables& books() noexcept { return *books_; }
  const ChunkTables& books() const noexcept { return *books_; }
  Snapshot snapshot() const noexcept { return Snapshot(*books_); }
  const Planner& planner() const noexcept { return planner_; }
  /// Goes on with a copy of the books: a policy that does not return may read them for ever.
  /// Throws: std::bad_alloc; then nothing has changed.
  void leave_books();

  // --- What has happened
  /// One use of each chunk by each GPU is left, in the order of chunks and then of GPUs, and the
  /// books have them all. Requires: their chunks are in the books.
  void fold_uses(std::vector<UseEvent>& uses);
  /// The rows of an allocation are about to go: returns how many waiting moves are not made because
  /// of it. It may be called again after it threw. Requires: no move of theirs is under way.
  std::size_t drop_moves(ChunkId first, std::size_t chunks);
  /// They are no more; the policy is told when it is asked next. Requires: `drop_moves`.
  void gone(ChunkId first, std::size_t chunks);

  // --- Asking the policy
  /// What a policy is to be called with, once: what it has not been told comes before the call. It
  /// owns all that it uses, so it may outlive this.
  struct Question {
    std::function<void(Policy&)> ask;
    std::shared_ptr<Plan> wishes;  ///< Complete when `ask` has returned.
  };
  Question question(PolicyCall call);
  /// Where chunks of these sizes go if the policy says nothing else: to the fastest places of
  /// `user` that have room, or to `user` itself, where pressure makes some. `reached`: where all
  /// that may use them can reach them.
  std::vector<PlaceId> first_places(PlaceId user, std::span<const std::uint64_t> chunks,
                                    const std::function<bool(PlaceId)>& reached) const;

  // --- Plans
  /// What the planner accepts waits until `take_ready` lets it begin. `awaited`: somebody waits for
  /// the room that the plan makes. Throws: std::bad_alloc; then no move of it waits.
  PlanOutcome accept(const Plan& plan, bool awaited);
  /// Adds victims to the plan until it makes the room that is asked for.
  void complete_pressure(const Pressure& pressure, Plan& plan) const;
  /// `decision` says for its caller which one planned the move. Requires: it waits.
  void note_decision(MoveNumber number, std::uint64_t decision);

  // --- Moves
  bool has_waiting() const noexcept { return !waiting_.empty(); }
  /// Those that have not begun.
  std::vector<MoveNumber> waiting() const;
  /// The same of moves from a place, for whose room somebody waits.
  std::vector<MoveNumber> awaited_from(PlaceId from) const;
  /// Null if it does not wait.
  const AcceptedMove* find_waiting(MoveNumber number) const;
  /// In the order in which they go: what makes room for policies' moves last, and of equals by
  /// number. That is the order of a plan: victims as the moves need them, moves by value.
  std::vector<MoveNumber> ready() const;
  /// The moves of `ready` that can begin now have begun, in groups, and have their room. Of the
  /// victims of one place that nobody waits for one group is under way at a time: the moves that it
  /// makes room for have begun when the next one does. Throws: std::bad_alloc; then all that has
  /// begun is in `groups`.
  void take(std::span<const MoveNumber> ready, std::vector<MoveGroup>& groups);
  /// Returns how many waiting moves are not made because it failed. Throws: std::bad_alloc; then
  /// nothing has changed.
  std::size_t end(const AcceptedMove& move, bool moved, Time took, Time stall);
  /// A move that waits is not made, nor are those that wait for it.
  void give_up(MoveNumber number);

 private:
  /// What the policy is told before it is asked again, in order.
  using Notice = std::variant<ChunkId, MoveResult>;  // Of a chunk: it is gone.
  /// An accepted move that has not begun.
  struct Waiting {
    AcceptedMove move;
    bool awaited = false;        // Somebody waits for the room that it makes.
    std::uint64_t decision = 0;  // That planned it.
  };

  bool joins(const MoveGroup& group, const AcceptedMove& move) const;
  void reserve_notices(std::size_t more);
  bool forget_waiting(MoveNumber number);

  std::shared_ptr<ChunkTables> books_;  // A policy that overran keeps its own.
  Planner planner_;
  std::map<MoveNumber, Waiting> waiting_;
  std::vector<std::uint32_t> leaving_;  // By place, moves that have begun there and go last.
  std::vector<Notice> notices_;
};

}  // namespace vma
