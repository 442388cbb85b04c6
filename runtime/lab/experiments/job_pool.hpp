#pragma once

#include "base/executor.hpp"
#include "base/mutex.hpp"

#include <cstddef>
#include <exception>
#include <functional>

namespace vma {

/// Runs numbered jobs on several threads: idle threads take the next number. Supports one call of
/// `run` at a time.
class JobPool {
 public:
  /// Requires: `executor` outlives it. 0 threads count as 1.
  JobPool(Executor& executor, std::size_t threads)
      : executor_(executor), threads_(threads == 0 ? 1 : threads) {}

  /// Calls `job` once with each number below `count`, on several threads other than the calling
  /// one. Begins no more jobs once `stop` returns true or a job has thrown. Throws: the exception
  /// of the job with the lowest number, after the running jobs have ended. Blocks: until all have
  /// ended.
  void run(std::size_t count, const std::function<void(std::size_t)>& job,
           const std::function<bool()>& stop);

  std::size_t threads() const noexcept { return threads_; }

 private:
  void work(std::size_t count, const std::function<void(std::size_t)>& job,
            const std::function<bool()>& stop);
  void note_failure(std::size_t number);

  Executor& executor_;
  const std::size_t threads_;
  Mutex mutex_;
  std::size_t next_ VMART_GUARDED_BY(mutex_) = 0;
  std::exception_ptr failure_ VMART_GUARDED_BY(mutex_);  // Null: none.
  std::size_t failed_ VMART_GUARDED_BY(mutex_) = 0;      // Number of the failed job.
};

}  // namespace vma
