#pragma once

#include "base/mutex.hpp"
#include "driver/driver.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

namespace vma {

/// Lets stopped work go whose thread does not come back in time, from a thread of its own: the
/// thread that stopped it may stand in a driver call that waits for just that. Any number at once,
/// from any thread.
class Watchdog {
 public:
  /// One arming. `none` is none.
  enum class Ticket : std::uint64_t { none };

  explicit Watchdog(Driver& driver);
  ~Watchdog();

  /// `late` runs once, on the watchdog's thread, if `disarm` does not come before `deadline`. It
  /// may store to host memory and read the clock, and nothing else: no driver call, no lock.
  Ticket arm(TimePoint deadline, std::function<void()> late);
  /// Another deadline for the same; nothing if it was late already.
  void rearm(Ticket ticket, TimePoint deadline) noexcept;
  /// Ensures: `late` does not run, and will not. Blocks: while it runs.
  void disarm(Ticket ticket) noexcept;

 private:
  struct Armed {
    TimePoint deadline{0};
    std::function<void()> late;
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
