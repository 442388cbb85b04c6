#pragma once

#include "base/mutex.hpp"
#include "migrate/live/live_ranges.hpp"
#include "migrate/migration/migration_error.hpp"
#include "migrate/migration/migration_parts.hpp"
#include "migrate/migration/migration_task.hpp"
#include "migrate/moves/preparation.hpp"
#include "migrate/moves/task_queue.hpp"
#include "migrate/moves/waited_migrations.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <memory>
#include <span>
#include <vector>

namespace vma {

/// The migrations in the background, and the threads that carry them out. Any thread.
///
/// Workers take tasks by priority, then in order, one task of an allocation at a time
/// (`TaskQueue`). What a task needs to end is allocated before it begins, so that each can report
/// its error even when the host is out of memory. As many workers run at once as there are GPUs,
/// plus one for each that waits for room, since another move may have to make that room. A worker
/// that moves live leads for a while: it also takes the tasks of the class of its first one, which
/// may share gates with it. Other workers leave those to it, because a gate of their own would wait
/// for all that the program has launched; they sleep until there is something else.
/// One owner: one lock guards queue, leaders and threads, which most steps change together.
class MigrationWorkers final : private LiveTasks {
 public:
  /// All arguments outlive it.
  MigrationWorkers(MigrationParts& parts, WaitedMigrations& waited, Preparation& preparation);

  /// All or none of them. Throws: as `Migrator::submit`.
  void enqueue(std::span<const std::shared_ptr<MigrationTask>> tasks);
  /// Cancels all waiting and running tasks. Does not wait.
  void stop_accepting() noexcept;
  /// Waits until they have ended. Requires: `stop_accepting` was called.
  void join() noexcept;

  struct Load {
    std::size_t running = 0, waiting = 0;
  };
  Load load() const;

 private:
  using Tasks = std::vector<std::shared_ptr<MigrationTask>>;
  /// A group whose targets have to be reserved before any of its tasks begins.
  struct Unreserved {
    Tasks tasks;
    bool begun = false;  // A worker does it.
  };
  /// A worker that moves live, for as long as it takes further tasks.
  struct Leader {
    std::shared_ptr<MigrationTask> first;
    TaskClass which;  ///< Its first task and those that join are of it.
    TimePoint until{0};
  };

  std::size_t running_max() const;
  void start_workers(std::size_t tasks) VMART_REQUIRES(queue_mutex_);
  void work() VMART_NO_THREAD_ANALYSIS;
  std::shared_ptr<MigrationTask> next_task() VMART_REQUIRES(queue_mutex_);
  TimePoint look_at_claimed() VMART_REQUIRES(queue_mutex_);
  TimePoint next_look() const VMART_REQUIRES(queue_mutex_);
  void wake_idle() noexcept VMART_REQUIRES(queue_mutex_);
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

  MigrationParts& parts_;
  WaitedMigrations& waited_;
  Preparation& preparation_;
  const MigrationErrors errors_{"vma::migrate_async"};

  mutable Mutex queue_mutex_;
  Condition queue_changed_;
  std::uint64_t wakes_ VMART_GUARDED_BY(queue_mutex_) = 0;
  TaskQueue waiting_ VMART_GUARDED_BY(queue_mutex_);
  TimePoint looked_at_claimed_ VMART_GUARDED_BY(queue_mutex_){0};
  std::list<Unreserved> unreserved_ VMART_GUARDED_BY(queue_mutex_);
  Tasks running_ VMART_GUARDED_BY(queue_mutex_);
  std::vector<Leader> leaders_ VMART_GUARDED_BY(queue_mutex_);
  std::size_t busy_workers_ VMART_GUARDED_BY(queue_mutex_) = 0;
  std::vector<std::unique_ptr<Task>> workers_ VMART_GUARDED_BY(queue_mutex_);
  bool stopping_ VMART_GUARDED_BY(queue_mutex_) = false;
};

}  // namespace vma
