#pragma once

#include "memory/move_claim.hpp"
#include "migrate/live/batch_stop.hpp"
#include "migrate/live/live_ranges.hpp"
#include "migrate/live/live_staging.hpp"
#include "migrate/live/move_conditions.hpp"
#include "migrate/migration/migration_parts.hpp"

#include <exception>
#include <memory>
#include <optional>

namespace vma {

/// Migrations in the background, batch by batch: how one of the `MigrationWorkers` executes a task,
/// together with others that wait for the same way.
///
/// The chunks of a batch are staged (`LiveStaging`: target, copy beside the application), then one
/// stop switches as many of them as its time allows (`BatchStop`), again and again as needed
/// (`MoveConditions`). Meanwhile the chunks that follow are copied. What ends one migration (an
/// error, a cancellation) leaves the others. One thread, which has the move claims; takes
/// `operations()` for each stop.
class LiveMigration {
 public:
  /// Requires: `first`'s claim is taken. `tasks` outlives it.
  LiveMigration(MigrationParts& parts, LiveTasks& tasks, std::shared_ptr<MigrationTask> first);

  /// Each migration ends through `LiveTasks::ended`. With an error, each of its chunks is whole at
  /// its source or at its target, or the allocation is poisoned.
  void run() noexcept;

 private:
  /// How a try to stop ended. Neither a refusal nor a failure: some chunk was switched.
  struct Try {
    std::optional<StopRefusal> refusal;
    std::exception_ptr failure;
    bool stopped = false;  ///< Some stream was stopped.
  };

  template <typename Body>
  void ending_what_fails(Body&& body) noexcept;
  void begin();
  void move_next(LiveChunk& first);
  void require_stop(const LiveChunk& first);
  void try_batch();
  void end_try() noexcept;
  void finish() noexcept;
  void call_off() noexcept;
  void give_up_or_back_off(LiveBatch& batch, const Try& last);
  void prepare_to_stop(LiveBatch& batch);
  void await_others();
  bool chunks_ready(const LiveBatch& batch) const;
  void require_streams(const LiveBatch& batch);
  std::optional<Try> stop_once(LiveBatch& batch);
  template <typename Body>
  void noting_failure(Try& result, Body&& body);
  void make_ready(LiveChunk& chunk);
  bool await_first(LiveBatch& batch, AllOperations& operations);
  void account_for(LiveBatch& batch, const BatchStop& stop, Try& result) noexcept;
  bool must_settle(const LiveChunk& chunk) const;
  bool retire_switched(LiveBatch& batch) noexcept;
  void retire(LiveChunk& chunk) noexcept;
  void fail(const LiveChunk& chunk, std::exception_ptr failure) noexcept;
  void fail_concerned(const std::exception_ptr& failure) noexcept;
  void fail_all(LiveBatch& batch, const Error& error) noexcept;
  void end_unwanted() noexcept;

  MigrationParts& parts_;
  Clock& clock_;
  LiveRanges ranges_;
  MoveConditions conditions_;
  LiveStaging staging_;
  std::optional<LiveBatch> batch_;   // The one that is moved now.
  std::optional<Stops::Turn> turn_;  // While it stops anything.
  std::optional<BatchStop> stop_;    // Of the last try.
  LiveChunk* concerned_ = nullptr;   // By an error that is thrown now.
  bool gave_turn_up_ = false;        // For others that waited for it.
};

}  // namespace vma
