#pragma once

#include "base/part.hpp"
#include "memory/memory.hpp"
#include "migrate/migration/group.hpp"
#include "migrate/migration/migration_task.hpp"
#include "migrate/migration/migration_parts.hpp"
#include "migrate/migration/requests.hpp"
#include "migrate/moves/dropped_contents.hpp"
#include "migrate/moves/migration_workers.hpp"
#include "migrate/moves/preparation.hpp"
#include "migrate/moves/waited_migrations.hpp"

#include <vma/migration.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace vma {

/// Moves memory: for callers that wait, on their own thread and under one hold over the whole range
/// (`move`), and in the background, chunk by chunk at gates (`submit`). Any thread.
///
/// All holds and gates take turns: a thread that stops work has the turn of `Stops` and that of the
/// slow-call queue.
class Migrator final : public Part {
 public:
  Migrator(Memory& memory, CopyEngine& engine, const MigratorLimits& limits);
  ~Migrator();

  /// Requires: the caller has the allocation's move claim. Throws: Error with the report; each
  /// chunk is entirely at its source or entirely at its target, or the allocation is poisoned.
  MigrationReport move(Allocation& allocation, SlotRange range, Place to,
                       const MigrateOptions& options, const MigrationTerms& terms = {}) {
    return waited_.move(allocation, range, to, options, terms);
  }
  /// Moves all ranges under one hold, except that allocations with hooks each have their own; each
  /// range succeeds or fails for itself. Takes the move claims. `account` has what they do
  /// together. Throws: std::bad_alloc before anything is stopped. Blocks: while another thread has
  /// a claim.
  std::vector<RangeResult> move_all(std::span<const RequestedRange> ranges,
                                    const MigrateOptions& options, const MigrationTerms& terms,
                                    GroupAccount& account) {
    return waited_.move_all(ranges, options, terms, account);
  }
  /// Gives up what the slots show with its bytes: they show nothing afterwards, and the driver has
  /// the memory. Stops all contexts in use unless the options say that nothing runs; all other
  /// options except the deadline are ignored. Requires: as `move`. Throws: Error with the report;
  /// each slot is dropped or unchanged.
  MigrationReport drop(Allocation& allocation, SlotRange range, const MigrateOptions& options) {
    return drop_contents(parts_, allocation, range, options);
  }
  /// Gives the dropped slots of the range memory at `at`, with zeros or with undefined contents;
  /// stops nothing, since nothing can be using them. Requires: as `move`. Throws: Error with the
  /// report; each slot has memory or is still dropped. If there is no room for all, none gets
  /// memory; the pressure is asked first.
  MigrationReport restore(Allocation& allocation, SlotRange range, Place at, bool zeroed = true) {
    return restore_contents(parts_, allocation, range, at, zeroed);
  }
  /// Switches imported memory to the chunks, as another process decides. Requires: as `move`.
  /// Throws: Error{pinned, cancelled, busy} and what the driver throws; then nothing has changed,
  /// or the allocation is poisoned.
  MigrationReport follow(Allocation& allocation, std::span<ImporterChunk> chunks,
                         const MigrateOptions& options, ImporterMove& leader) {
    return waited_.follow(allocation, chunks, options, leader);
  }
  /// From now on, the processes that have imported memory follow its moves; null: they keep it in
  /// place. It outlives the moves.
  void lead_importers(ExporterMoves* importers) noexcept { parts_.lead(importers); }
  /// Requires: the arguments have been checked. Throws: Error{driver_gone} once stopped, {busy} if
  /// `TaskQueue::tasks_max` are already waiting, or if no thread can be started for it.
  std::shared_ptr<MigrationTask> submit(std::shared_ptr<Allocation> allocation, SlotRange range,
                                        Place to, const MigrateOptions& options,
                                        const MigrationTerms& terms = {});
  /// The same for several, all at once: the worker that takes the first of them finds the others,
  /// and may let them share its gates or its hold. If it throws, none is submitted. The tasks are
  /// in the order of the migrations.
  std::vector<std::shared_ptr<MigrationTask>> submit_all(std::vector<NewMigration> migrations);
  /// From now on, gates may overdraw the stall budget by so much; zero: no more.
  void allow_ahead(std::chrono::nanoseconds stall) { parts_.budget.allow_ahead(stall); }
  /// One watcher at a time; an empty one removes it. Blocks: while the former is being called.
  void watch(MoveWatcher watcher) { parts_.observers.watch(std::move(watcher)); }
  /// Like `watch`, for each step of each chunk's move.
  void watch_chunks(ChunkWatcher watcher) { parts_.observers.watch_chunks(std::move(watcher)); }
  /// Streams were attached to the allocation that begins there, or to all memory if it is zero:
  /// begins to create what their moves will need, if the limits say so. Does not block.
  void prepare_for(Address scope) noexcept;
  /// There is memory that may move: begins to create what suspensions need, if the limits say so.
  /// Does not block.
  void prepare_suspensions() noexcept {
    if (parts_.limits.prepares_suspensions) preparation_.begin_ahead();
  }
  /// Blocks: until what these two have begun has ended. Requires: `finish` comes later.
  void await_preparation() noexcept { preparation_.await(); }
  /// Cancels all waiting and running moves. Does not wait.
  void stop_accepting() noexcept override { workers_.stop_accepting(); }
  /// Calls `stop_accepting`, and waits until the moves have ended.
  void finish() noexcept override;

  /// Migrations in the background.
  MigrationWorkers::Load load() const { return workers_.load(); }

  AttachedStreams& attached() noexcept { return parts_.stops.attached(); }
  /// What a context of the runtime's own takes of the GPU's memory; 0 if there is none.
  std::uint64_t own_context_bytes(DeviceId device) const {
    return parts_.engine.own_context_bytes(device);
  }
  const AttachedStreams& attached() const noexcept { return parts_.stops.attached(); }
  /// See `Stops`.
  SuspensionFinding check_suspension(DeviceId device) {
    return parts_.stops.check_suspension(device);
  }
  /// Whether the work that may use the memory there can be stopped in the background: by a
  /// suspension, at gates of attached streams, or by a hold.
  bool may_stop_for(Address begin) const {
    return parts_.stops.suspends() || parts_.stops.attached().any(begin) ||
           parts_.memory.driver().has_context_hold();
  }
  /// Why memory does not move for which that is false.
  static constexpr const char* why_no_stop =
      "the work that uses it cannot be stopped: no attached stream may use it";
  const Reach& reach() const noexcept { return parts_.reach; }
  Callbacks& callbacks() noexcept { return *parts_.callbacks; }
  const std::shared_ptr<Callbacks>& shared_callbacks() const noexcept { return parts_.callbacks; }
  /// See `Stops`.
  const StopStats& stats(StopKind kind = StopKind::gate) const noexcept {
    return parts_.stops.stats(kind);
  }
  std::uint64_t migrations() const noexcept { return parts_.observers.migrations(); }
  std::uint64_t bytes_moved() const noexcept { return parts_.observers.bytes_moved(); }
  std::uint64_t bytes_copied_twice() const noexcept {
    return parts_.observers.bytes_copied_twice();
  }

 private:
  void start_callbacks(const MigrateOptions& options);

  MigrationParts parts_;
  WaitedMigrations waited_{parts_};
  Preparation preparation_;
  MigrationWorkers workers_{parts_, waited_, preparation_};
};

}  // namespace vma
