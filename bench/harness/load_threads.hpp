#pragma once

#include "base/executor.hpp"
#include "base/mutex.hpp"

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

namespace vma {

/// Threads that do other work beside a measurement, until they are stopped or one of them fails.
class LoadThreads {
 public:
  LoadThreads() = default;
  ~LoadThreads();
  LoadThreads(const LoadThreads&) = delete;
  LoadThreads& operator=(const LoadThreads&) = delete;

  /// Runs `body` once, which returns soon after `stopping`.
  void spawn(const char* name, std::function<void()> body);
  bool stopping() const noexcept { return stopping_; }
  /// Blocks: until all have ended. Throws: the error of the first thread that failed, once.
  void stop();

 private:
  void join();

  std::atomic<bool> stopping_{false};
  Mutex mutex_;
  std::exception_ptr error_ VMART_GUARDED_BY(mutex_);
  ThreadedExecutor executor_;
  std::vector<std::unique_ptr<Task>> tasks_;  // Used only by the owner's thread.
};

}  // namespace vma
