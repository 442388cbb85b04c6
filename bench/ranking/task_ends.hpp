#pragma once

#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "lab/replay/replay_tasks.hpp"

#include <utility>
#include <vector>

namespace vma {

/// The accesses of tasks that have ended, from the devices' threads to the one that plays the
/// trace. Its time counts from its construction.
class TaskEnds {
 public:
  Time now() { return std::chrono::duration_cast<Time>(clock_.now() - begin_); }

  /// One access of the task has ended. Any thread.
  void add(ReplayTasks::Index task) {
    const MutexLock lock(mutex_);
    ended_.push_back(task);
    changed_.notify_all();
  }
  /// Returns them, each once. Blocks: until there is one, at most until `deadline`.
  std::vector<ReplayTasks::Index> take(Time deadline) {
    MutexLock lock(mutex_);
    changed_.wait_until(lock, clock_, begin_ + deadline,
                        [this]() VMART_NO_THREAD_ANALYSIS { return !ended_.empty(); });
    return std::exchange(ended_, {});
  }

 private:
  SteadyClock clock_;
  const TimePoint begin_ = clock_.now();
  Mutex mutex_;
  Condition changed_;
  std::vector<ReplayTasks::Index> ended_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
