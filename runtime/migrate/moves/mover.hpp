#pragma once

#include "base/listener.hpp"
#include "base/mutex.hpp"
#include "memory/memory.hpp"
#include "migrate/copying/copy_engine.hpp"
#include "migrate/copying/live_copier.hpp"
#include "migrate/gates/attached_streams.hpp"
#include "migrate/gates/gate.hpp"
#include "migrate/gates/hold.hpp"
#include "migrate/gates/stall_budget.hpp"
#include "migrate/gates/stop_stats.hpp"
#include "migrate/gates/watchdog.hpp"
#include "migrate/moves/callbacks.hpp"
#include "migrate/moves/chunk_step.hpp"
#include "migrate/moves/migration_task.hpp"
#include "migrate/moves/reach.hpp"
#include "migrate/moves/task_queue.hpp"

#include <vma/migration.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace vma {

/// What bounds moves.
struct MoverLimits {
  std::chrono::nanoseconds hold_limit = std::chrono::seconds(2);
  std::chrono::nanoseconds gate_limit = std::chrono::milliseconds(5);
  /// What tries that were given up for time double the limit to, at most; zero keeps it as it is.
  std::chrono::nanoseconds gate_limit_max{0};
  int gate_retries = 8;
  std::chrono::nanoseconds stall_budget{0};  ///< Of a second; zero is none.
  std::uint64_t copy_budget_bytes = 0;       ///< In a second; zero is none.
  LiveTuning tuning{};
};

/// When the work was stopped, and when it went on; both zero if it never was.
struct HeldTimes {
  TimePoint stopped{0}, opened{0};
};

/// Moves memory: for callers that wait, on their own thread and under one hold over the whole range
/// (`move`), and in the background, chunk by chunk at gates (`submit`). Any thread.
///
/// Workers take tasks by priority, then in order, one task an allocation at a time (`TaskQueue`).
/// What a task needs to end is made before it begins, so that each ends in an error that can be
/// waited for, also where the host has no memory left. Holds and gates
/// take turns, all of them: whoever stops work has `turn_` and the turn for slow calls. As many run
/// at once as there are GPUs, and one more for each that waits for room: that may be what makes it.
class Mover {
 public:
  /// Told of each migration that has ended, in the background or not, whatever its outcome: before
  /// anybody who waits for it goes on. No lock is held, the move claim may be. It must not wait for
  /// a move. What it throws is logged.
  using Watcher = std::function<void(const std::shared_ptr<Allocation>&, const MigrationReport&)>;

  Mover(Memory& memory, CopyEngine& engine, const MoverLimits& limits);
  ~Mover();

  /// Requires: the caller has the allocation's move claim. Throws: Error with the report; each
  /// chunk is wholly at its source or wholly at its target, or the allocation is poisoned.
  MigrationReport move(Allocation& allocation, SlotRange range, Location to,
                       const MigrateOptions& options, const MoveTerms& terms = {});
  /// Gives up what the slots show with its bytes: they show nothing afterwards, and the memory is
  /// the driver's. Stops all contexts in use unless the options say that nothing runs; of them only
  /// that and the deadline count. Requires: as `move`. Throws: Error with the report; each slot is
  /// dropped or as it was.
  MigrationReport drop(Allocation& allocation, SlotRange range, const MigrateOptions& options);
  /// Memory at `at`, all zeros, for those slots that were dropped; stops nothing, since nothing can
  /// be using them. Requires: as `move`. Throws: Error with the report; each slot has memory or is
  /// dropped still. Where there is no room for all, none has; the pressure is asked first.
  MigrationReport restore(Allocation& allocation, SlotRange range, Location at);
  /// Requires: the arguments have been checked. Throws: Error{driver_gone} once stopped, {busy}
  /// where `TaskQueue::tasks_max` wait already, or where no thread can be started for it.
  std::shared_ptr<MigrationTask> submit(std::shared_ptr<Allocation> allocation, SlotRange range,
                                        Location to, const MigrateOptions& options,
                                        const MoveTerms& terms = {});
  /// One at a time; an empty one is nobody. Blocks: while the former is told something.
  void watch(Watcher watcher) {
    watcher_.set(watcher ? std::make_shared<Watcher>(std::move(watcher)) : nullptr);
  }
  /// The same for each step of each chunk's move.
  void watch_chunks(ChunkWatcher watcher) {
    chunk_watcher_.set(watcher ? std::make_shared<ChunkWatcher>(std::move(watcher)) : nullptr);
  }
  /// Cancels what waits and what runs, and takes no more. Does not wait.
  void refuse_more() noexcept;
  /// The same, and waits for it.
  void stop() noexcept;

  /// Migrations in the background.
  struct Load {
    std::size_t running = 0, waiting = 0;
  };
  Load load() const;

  AttachedStreams& attached() noexcept { return attached_; }
  const Reach& reach() const noexcept { return reach_; }
  Callbacks& callbacks() noexcept { return *callbacks_; }
  const StopStats& stats() const noexcept { return stats_; }
  std::uint64_t migrations() const noexcept { return migrations_; }
  std::uint64_t bytes_moved() const noexcept { return bytes_moved_; }
  std::uint64_t bytes_copied_twice() const noexcept { return bytes_copied_twice_; }

 private:
  friend class HeldMove;
  friend class HeldDrop;
  friend class LiveMove;
  friend class Restoration;
  friend class ChunkStop;
  /// Makes the place that holds stand on, at the first move. Requires: `turn_`.
  HoldPost& post(Location from, Location to) VMART_REQUIRES(turn_);
  /// How long held work may take to come to rest.
  std::chrono::nanoseconds rest_limit(const MigrateOptions& options) const;
  /// How long one driver call, or the copy of one chunk, may take while work is held.
  std::chrono::nanoseconds patience(const MigrateOptions& options) const;
  /// Runs `body` while all contexts in use stand, and says so in the report and in `times`. The
  /// first hold stands on a context of the route. Requires: the caller holds no turn, and the route
  /// is prepared. Throws: what `Hold` throws, and `body`; nothing stands then.
  void hold_while(Location from, Location to, const MigrateOptions& options,
                  MigrationReport& report, HeldTimes& times,
                  const std::function<void(Hold&)>& body);
  /// Hooks hear of each slot that `body` drops or gives memory to; nobody has `operations()` then.
  template <typename Body>
  MigrationReport tell_hooks(Allocation& allocation, SlotRange range, bool drops, Location to,
                             Body&& body);
  /// Makes what live copies off the GPU need, at the first of them. `own`: in a context of the
  /// runtime's own. Blocks: kernels are loaded. Requires: the caller holds no turn.
  LiveCopier& copier(DeviceId device, Location to, bool own);
  /// The context of the application on the GPU, which is retained; none if that is not active.
  ContextHandle application_context(DeviceId device);
  /// The report is right whatever it throws.
  void move_held(Allocation& allocation, SlotRange range, Location to,
                 const MigrateOptions& options, const MoveTerms& terms, const MigrationTask* task,
                 MigrationReport& report);
  /// As `Memory::with_room`, for a move on these terms. Requires: the caller holds no turn, and no
  /// copier.
  template <typename Body>
  void with_room(MemoryPressure::Want& want, const MoveTerms& terms, Location at,
                 std::uint64_t size_bytes, Body&& body);
  bool ask_for_room(MemoryPressure::Want& want, Location at, std::uint64_t size_bytes);
  std::size_t running_max() const VMART_REQUIRES(queue_mutex_);
  void start_callbacks(const MigrateOptions& options);
  void start_workers() VMART_REQUIRES(queue_mutex_);
  void work() VMART_NO_THREAD_ANALYSIS;
  std::shared_ptr<MigrationTask> next_task() VMART_REQUIRES(queue_mutex_);
  void carry_out(MigrationTask& task) noexcept;
  std::optional<Error> attempt(MigrationTask& task, Allocation& allocation,
                               MigrationReport& report) noexcept;
  void ended(Allocation& allocation, const MigrationReport& report) noexcept;
  void tell(const ChunkStep& step) noexcept;

  Memory& memory_;
  CopyEngine& engine_;
  const MoverLimits limits_;
  // What a move ends with where the host has no memory for an error of its own; copies want none.
  const Error no_memory_, lost_slot_;
  Watchdog watchdog_;
  AttachedStreams attached_;
  const Reach reach_;
  const std::shared_ptr<Callbacks> callbacks_;
  StopStats stats_;

  Mutex turn_;  // One hold or gate at a time.
  std::unique_ptr<HoldPost> post_ VMART_GUARDED_BY(turn_);
  GatePost gate_post_ VMART_GUARDED_BY(turn_);

  Mutex copiers_mutex_;  // Held while one is made; taken before the turn for slow calls.
  std::map<DeviceId, ContextHandle> applications_ VMART_GUARDED_BY(copiers_mutex_);  // Retained.
  std::map<std::pair<DeviceId, bool>, std::unique_ptr<LiveCopier>> copiers_
      VMART_GUARDED_BY(copiers_mutex_);

  Mutex budget_mutex_;
  StallBudget budget_ VMART_GUARDED_BY(budget_mutex_);

  mutable Mutex queue_mutex_;
  Condition queue_changed_;
  TaskQueue waiting_ VMART_GUARDED_BY(queue_mutex_);
  std::vector<std::shared_ptr<MigrationTask>> running_ VMART_GUARDED_BY(queue_mutex_);
  std::vector<std::unique_ptr<Task>> workers_ VMART_GUARDED_BY(queue_mutex_);
  bool stopping_ VMART_GUARDED_BY(queue_mutex_) = false;
  std::size_t asking_ VMART_GUARDED_BY(queue_mutex_) = 0;  // Moves that wait for room.

  Listener<Watcher> watcher_;
  Listener<ChunkWatcher> chunk_watcher_;
  std::atomic<std::uint64_t> migrations_{0};
  std::atomic<std::uint64_t> bytes_moved_{0};
  std::atomic<std::uint64_t> bytes_copied_twice_{0};
};

template <typename Body>
void Mover::with_room(MemoryPressure::Want& want, const MoveTerms& terms, Location at,
                      std::uint64_t size_bytes, Body&& body) {
  const bool may_ask = terms.asks_for_room && at.kind == Location::Kind::gpu;
  const auto ask = [&](Location full, std::uint64_t bytes) {
    return may_ask && ask_for_room(want, full, bytes);
  };
  memory_.with_room(ask, at, size_bytes, std::forward<Body>(body));
}

}  // namespace vma
