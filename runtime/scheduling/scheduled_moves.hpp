#pragma once

#include "migrate/migration/migration_task.hpp"
#include "migrate/moves/migrator.hpp"
#include "migrate/migration/requests.hpp"
#include "placement/deciding/decision_path.hpp"
#include "scheduling/chunk_roster.hpp"
#include "scheduling/decision_journal.hpp"
#include "scheduling/prediction_log.hpp"
#include "scheduling/scheduler_inbox.hpp"

#include <vma/migration.hpp>
#include <vma/scheduler.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vma {

/// The moves of a scheduler, from a policy's plan to their ends: has plans accepted or refused,
/// submits ready moves to the migrator, updates the books when they end, and learns how accurate
/// the predictions were. For the scheduler, one thread at a time.
/// One owner: each begin and end of a move changes the list, the counts, the costs and the books.
class ScheduledMoves {
 public:
  /// All arguments outlive it. `inbox` is woken when a move has ended.
  ScheduledMoves(Migrator& migrator, const Clock& clock, const ChunkRoster& roster,
                 DecisionPath& path, DecisionJournal& journal,
                 std::shared_ptr<SchedulerInbox> inbox, MachineCosts costs);

  /// The moves of a plan wait until they may begin, or are refused. `awaited`: a thread waits for
  /// the room that the plan makes. Throws: std::bad_alloc.
  void accept(const Plan& plan, bool awaited = false);
  /// Starts the moves that are ready. Throws: what one of them failed with; the others have begun,
  /// and each that has begun is kept until it has ended.
  void start_ready();
  /// Updates the books with the moves that have ended. False if none has. Throws: std::bad_alloc;
  /// the rest is handled next time.
  bool take_ended();
  /// Judges moves that spent the stall budget of later. Throws: std::bad_alloc.
  void judge_ahead();
  /// Looks how the program gets on, and gives waiting moves up once moving does not pay.
  /// `progress`: of the program, in all. Throws: std::bad_alloc.
  void watch_pace(std::uint64_t progress);
  /// Drops an accepted move.
  void give_up(MoveNumber number, const std::string& why);
  /// Cancels moves that make room at `at` for a waiting thread.
  void cancel_awaited_from(PlaceId at);

  /// Whether the migrator has no move of the scheduler.
  bool empty() const noexcept { return running_.empty(); }
  bool any_of(Address begin) const noexcept;
  bool any_from(PlaceId at) const noexcept;
  /// How many moves have ended, successfully or not.
  std::uint64_t ended() const noexcept { return done_ + failed_; }
  /// Adds the outcomes of the moves so far.
  void count_in(SchedulerStats& stats) const;

 private:
  /// A group that was submitted to the migrator.
  struct Running : PlannedMigration {
    explicit Running(PlannedMigration&& group) noexcept : PlannedMigration(std::move(group)) {}
    bool goes_last() const noexcept { return moves.front().goes_last; }

    std::shared_ptr<MigrationTask> task;
    std::weak_ptr<Allocation> allocation;
    Address begin{};
    std::size_t first_slot = 0;
    Time started{0};
    std::string refused;  // Why it has no task.
    // How many of its moves, in order; resumes here after running out of memory.
    std::size_t ended = 0;
  };

  void note_ahead(const StallAdvance& ahead, double left);
  void allow_ahead();
  void look_up(Running& group);
  void submit(std::span<Running> groups) noexcept;
  std::optional<NewMigration> migration_of(Running& group) const;
  void note_start(const Running& group);
  void end(Running& group);
  void end_refused(Running& group);
  void end_move(const Running& group, std::size_t which, bool moved, const MigrationReport& report);

  Migrator& migrator_;
  const Clock& clock_;
  const ChunkRoster& roster_;
  DecisionPath& path_;
  DecisionJournal& journal_;
  const std::shared_ptr<SchedulerInbox> inbox_;  // A migration's callback may come late.
  const MachineCosts costs_;  // Uncorrected; decisions use the costs in the books.
  std::vector<Running> running_;
  Time allowed_ahead_{0};  // By how much the migrator may overdraw the stall budget.
  PredictionLog predictions_;
  std::uint64_t wanted_ = 0, started_ = 0, done_ = 0, failed_ = 0;
  std::map<std::string, std::uint64_t> refused_;  // By reason.
};

}  // namespace vma
