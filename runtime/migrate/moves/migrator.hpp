#pragma once

#include "base/mutex.hpp"
#include "base/part.hpp"
#include "memory/memory.hpp"
#include "migrate/live/live_ranges.hpp"
#include "migrate/migration/group.hpp"
#include "migrate/migration/migration_error.hpp"
#include "migrate/migration/migration_task.hpp"
#include "migrate/migration/migration_parts.hpp"
#include "migrate/migration/requests.hpp"
#include "migrate/moves/dropped_contents.hpp"
#include "migrate/moves/preparation.hpp"
#include "migrate/moves/task_queue.hpp"
#include "migrate/moves/waited_migrations.hpp"

#include <vma/migration.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace vma {

/// Moves memory: for callers that wait, on their own thread and under one hold over the whole range
/// (`move`), and in the background, chunk by chunk at gates (`submit`). Any thread.
///
/// Workers take tasks by priority, then in order, one task of an allocation at a time
/// (`TaskQueue`). What a task needs to end is allocated before it begins, so that each can report
/// its error even when the host is out of memory. All holds and gates take turns: a thread that
/// stops work has the turn of `Stops` and that of the slow-call queue. As many workers run at once
/// as there are GPUs, plus one for each that waits for room, since another move may have to make
/// that room. A worker that moves live also takes, for a while, each task that may share gates with
/// its first one, on whatever route between GPUs; other workers leave those to it, because a gate
/// of their own would wait for all that the program has launched.
class Migrator final : private LiveTasks, public Part {
 public:
  Migrator(Memory& memory, CopyEngine& engine, const MigratorLimits& limits);
  ~Migrator() override;

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
  /// Gives the dropped slots of the range zeroed memory at `at`; stops nothing, since nothing can
  /// be using them. Requires: as `move`. Throws: Error with the report; each slot has memory or is
  /// still dropped. If there is no room for all, none gets memory; the pressure is asked first.
  MigrationReport restore(Allocation& allocation, SlotRange range, Place at) {
    return restore_contents(parts_, allocation, range, at);
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
  void lead_importers(ExporterMoves* importers) noexcept { importers_ = importers; }
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
  void allow_ahead(std::chrono::nanoseconds stall) { budget_.allow_ahead(stall); }
  /// One watcher at a time; an empty one removes it. Blocks: while the former is being called.
  void watch(MoveWatcher watcher) { observers_.watch(std::move(watcher)); }
  /// Like `watch`, for each step of each chunk's move.
  void watch_chunks(ChunkWatcher watcher) { observers_.watch_chunks(std::move(watcher)); }
  /// Streams were attached to the allocation that begins there, or to all memory if it is zero:
  /// begins to create what their moves will need, if the limits say so. Does not block.
  void prepare_for(Address scope) noexcept;
  /// There is memory that may move: begins to create what suspensions need, if the limits say so.
  /// Does not block.
  void prepare_suspensions() noexcept {
    if (limits_.prepares_suspensions) preparation_.begin_ahead();
  }
  /// Cancels all waiting and running moves. Does not wait.
  void stop_accepting() noexcept override;
  /// Calls `stop_accepting`, and waits until the moves have ended.
  void finish() noexcept override;

  /// Migrations in the background.
  struct Load {
    std::size_t running = 0, waiting = 0;
  };
  Load load() const;

  AttachedStreams& attached() noexcept { return stops_.attached(); }
  /// What a context of the runtime's own takes of the GPU's memory; 0 if there is none.
  std::uint64_t own_context_bytes(DeviceId device) const {
    return parts_.engine.own_context_bytes(device);
  }
  const AttachedStreams& attached() const noexcept { return stops_.attached(); }
  /// See `Stops`.
  SuspensionFinding check_suspension(DeviceId device) { return stops_.check_suspension(device); }
  /// Whether the work that may use the memory there can be stopped in the background: by a
  /// suspension, at gates of attached streams, or by a hold.
  bool may_stop_for(Address begin) const {
    return stops_.suspends() || stops_.attached().any(begin) || memory_.driver().has_context_hold();
  }
  /// Why memory does not move for which that is false.
  static constexpr const char* why_no_stop =
      "the work that uses it cannot be stopped: no attached stream may use it";
  const Reach& reach() const noexcept { return reach_; }
  Callbacks& callbacks() noexcept { return *callbacks_; }
  const std::shared_ptr<Callbacks>& shared_callbacks() const noexcept { return callbacks_; }
  /// See `Stops`.
  const StopStats& stats(StopKind kind = StopKind::gate) const noexcept {
    return stops_.stats(kind);
  }
  std::uint64_t migrations() const noexcept { return observers_.migrations(); }
  std::uint64_t bytes_moved() const noexcept { return observers_.bytes_moved(); }
  std::uint64_t bytes_copied_twice() const noexcept { return observers_.bytes_copied_twice(); }

 private:
  using Tasks = std::vector<std::shared_ptr<MigrationTask>>;
  /// A group whose targets have to be reserved before any of its tasks begins.
  struct Unreserved {
    Tasks tasks;
    bool begun = false;  // A worker does it.
  };

  std::size_t running_max() const;
  void start_callbacks(const MigrateOptions& options);
  void start_workers(std::size_t tasks) VMART_REQUIRES(queue_mutex_);
  void enqueue(std::span<const std::shared_ptr<MigrationTask>> tasks);
  void work() VMART_NO_THREAD_ANALYSIS;
  std::shared_ptr<MigrationTask> next_task() VMART_REQUIRES(queue_mutex_);
  bool may_begin(const MigrationTask& task) const VMART_REQUIRES(queue_mutex_);
  bool reserve_next(MutexLock& lock) VMART_NO_THREAD_ANALYSIS;
  void take_group_of(const std::shared_ptr<MigrationTask>& first, Tasks& tasks) noexcept
      VMART_REQUIRES(queue_mutex_);
  void carry_out(const std::shared_ptr<MigrationTask>& task, const Tasks& together) noexcept;
  bool must_hold(const MigrationTask& task);
  void carry_out_held(std::span<const std::shared_ptr<MigrationTask>> tasks) noexcept;
  void end_held(const std::shared_ptr<MigrationTask>& task, HeldRange* range,
                std::exception_ptr failure) noexcept;
  std::shared_ptr<MigrationTask> take_beside(const MigrationTask& first) noexcept override;
  void lead_no_longer(const MigrationTask& first) noexcept override;
  void ended(std::shared_ptr<MigrationTask> task, MigrationReport report,
             std::exception_ptr failure) noexcept override;

  /// A worker that moves live, for as long as it takes further tasks.
  struct Leader {
    std::shared_ptr<MigrationTask> first;
    Place from;  ///< Where the first chunk that its first task is to move lay.
    TimePoint until{0};
  };
  bool may_join(const Leader& leader, const MigrationTask& task);
  bool joins_another(const MigrationTask& task) VMART_REQUIRES(queue_mutex_);

  Memory& memory_;
  const MigratorLimits limits_;
  const MigrationErrors errors_{"vma::migrate_async"};
  const std::shared_ptr<Callbacks> callbacks_;
  LiveCopiers copiers_;
  Stops stops_;
  const Reach reach_;
  StallBudget budget_;
  StallForecast forecast_;
  MoveObservers observers_;
  std::atomic<ExporterMoves*> importers_{nullptr};
  const MigrationParts parts_;  // The above, for each migration.
  WaitedMigrations waited_;
  Preparation preparation_;

  mutable Mutex queue_mutex_;
  Condition queue_changed_;
  TaskQueue waiting_ VMART_GUARDED_BY(queue_mutex_);
  std::list<Unreserved> unreserved_ VMART_GUARDED_BY(queue_mutex_);
  std::vector<std::shared_ptr<MigrationTask>> running_ VMART_GUARDED_BY(queue_mutex_);
  std::vector<Leader> leaders_ VMART_GUARDED_BY(queue_mutex_);
  std::size_t busy_workers_ VMART_GUARDED_BY(queue_mutex_) = 0;
  std::vector<std::unique_ptr<Task>> workers_ VMART_GUARDED_BY(queue_mutex_);
  bool stopping_ VMART_GUARDED_BY(queue_mutex_) = false;
};

}  // namespace vma
