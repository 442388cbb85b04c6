#pragma once

#include "base/mutex.hpp"
#include "driver/driver.hpp"

#include <functional>
#include <memory>

namespace vma {

/// Lets a hold go whose thread does not come back in time, from a thread of its own: the thread
/// that holds may stand in a driver call that waits for just that. One hold at a time.
class Watchdog {
 public:
  explicit Watchdog(Driver& driver);
  ~Watchdog();

  /// `late` runs on the watchdog's thread if `disarm` does not come before `deadline`. It may store
  /// to host memory, and nothing else: no driver call, no lock.
  void arm(TimePoint deadline, std::function<void()> late);
  /// After it `late` does not run any more.
  void disarm() noexcept;

 private:
  void run() VMART_NO_THREAD_ANALYSIS;

  Driver& driver_;
  Mutex mutex_;
  Condition changed_;
  TimePoint deadline_ VMART_GUARDED_BY(mutex_) = never;
  std::function<void()> late_ VMART_GUARDED_BY(mutex_);
  bool stopping_ VMART_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Task> task_;
};

}  // namespace vma
