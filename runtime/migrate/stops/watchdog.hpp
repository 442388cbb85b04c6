#pragma once

#include "base/mutex.hpp"
#include "driver/driver.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

namespace vma {

/// Releases stopped work, on its own thread, if the thread that stopped it does not return in time:
/// that one may be blocked in a driver call that waits for just that work. Any number at once, from
/// any thread.
class Watchdog {
 public:
  /// One arming.
  enum class Ticket : std::uint64_t { none };

  explicit Watchdog(Driver& driver);
  ~Watchdog();

  /// `late` runs once, on the watchdog's thread, unless `disarm` is called before `deadline`. It
  /// may only store to host memory and read the clock: no driver call, no lock. The exception is
  /// that of a suspension, which calls `Driver::resume` once each time. That waits for no work, and
  /// for no thread that does: only for calls of the kernel module, which keep its locks for as long
  /// as one control takes. And one thread stops work at a time, so what else is armed meanwhile is
  /// at most settling that this thread has enqueued, which the suspended work does not wait for.
  Ticket arm(TimePoint deadline, std::function<void()> late);
  /// As `arm`, but `late` returns when it is to run again: `never` if it is not.
  Ticket arm_repeatedly(TimePoint deadline, std::function<TimePoint()> late);
  /// Changes the deadline; does nothing if `late` has run and does not run again.
  void rearm(Ticket ticket, TimePoint deadline) noexcept;
  /// Ensures: `late` does not run, and will not. Blocks: while it runs.
  void disarm(Ticket ticket) noexcept;

 private:
  struct Armed {
    TimePoint deadline{0};
    std::function<TimePoint()> late;
  };
  void run() VMART_NO_THREAD_ANALYSIS;
  TimePoint earliest() const VMART_REQUIRES(mutex_);
  void run_late() VMART_REQUIRES(mutex_);

  Driver& driver_;
  Mutex mutex_;
  Condition changed_;
  std::map<Ticket, Armed> armed_ VMART_GUARDED_BY(mutex_);
  std::uint64_t last_ticket_ VMART_GUARDED_BY(mutex_) = 0;
  bool stopping_ VMART_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Task> task_;
};

}  // namespace vma
