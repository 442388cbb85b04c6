#pragma once

#include "base/mutex.hpp"
#include "driver/driver.hpp"

#include <functional>
#include <list>
#include <memory>

namespace vma {

/// The one place for slow driver work: creates, releases and first grants run one at a time, under
/// the turn, because the driver serialises them anyway and a stopped move would have to wait for
/// them. A thread runs what can wait; callers that cannot wait take the turn themselves.
class SlowCallQueue {
 public:
  explicit SlowCallQueue(Driver& driver);
  /// Runs what was posted, then ends the thread.
  ~SlowCallQueue();

  /// Held for one slow call at a time, and by a hold for its whole duration.
  Mutex& turn() noexcept { return turn_; }

  /// `job` runs on the slow-call thread with the turn held. It must not throw. Throws:
  /// std::bad_alloc; then nothing is posted, and likewise below.
  void post(std::function<void()> job);
  /// `job` runs once `ready` has returned true; the slow-call thread polls it without the turn.
  /// Neither must throw.
  void post_when(std::function<bool()> ready, std::function<void()> job);
  /// `step` runs like a job, again and again until it returns false. Before each further step, the
  /// thread leaves the turn to those who wait for it, and runs other jobs.
  void post_steps(std::function<bool()> step);
  /// Runs on this thread what was posted or is ready by now, except steps. Requires: the caller
  /// holds the turn.
  void run_here();
  /// Blocks until everything posted before has run, except jobs that are not ready by now.
  void await_empty();
  /// Ends the thread once all is done, or after waiting a second for jobs that are not ready: those
  /// then run here, ready or not. No further step runs.
  void stop() noexcept;

 private:
  struct Job {
    std::function<bool()> ready;  // Empty if the job need not wait.
    std::function<void()> run;
  };

  bool run_next();
  // Called with the lock held; they release it in between.
  void run() VMART_NO_THREAD_ANALYSIS;
  void run_jobs(MutexLock& lock) VMART_NO_THREAD_ANALYSIS;
  void run_step(MutexLock& lock) VMART_NO_THREAD_ANALYSIS;
  void look_at_waiting();

  Driver& driver_;
  Mutex turn_;
  Mutex mutex_;
  Mutex looking_;  // Held while `ready` is polled; taken before `mutex_`, after `turn_`.
  Condition changed_;
  // Lists, because moving a job that has become ready between them needs no memory.
  std::list<Job> jobs_ VMART_GUARDED_BY(mutex_);
  std::list<Job> waiting_ VMART_GUARDED_BY(mutex_);
  std::list<std::function<bool()>> steps_ VMART_GUARDED_BY(mutex_);
  int running_ VMART_GUARDED_BY(mutex_) = 0;
  bool stopping_ VMART_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Task> task_;  // Constant after construction, until `stop`.
};

}  // namespace vma
