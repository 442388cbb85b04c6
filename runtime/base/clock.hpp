#pragma once

#include <chrono>
#include <functional>

namespace vma {

/// Time since the clock's own start.
using TimePoint = std::chrono::nanoseconds;
constexpr TimePoint never = TimePoint::max();

/// The time that a machine lives in: the processor's on real machines, virtual on simulated ones.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
  /// When a thread that waits for `deadline` gives up, on the processor's clock.
  virtual std::chrono::steady_clock::time_point wake_time(TimePoint deadline) const = 0;
  /// A wait has lasted until its deadline; a virtual clock follows.
  virtual void reached(TimePoint) {}
};

/// The processor's monotonic clock.
class SteadyClock : public Clock {
 public:
  TimePoint now() const override;
  std::chrono::steady_clock::time_point wake_time(TimePoint deadline) const override;
};

/// Waits between two looks at something that sends no signal: spins at first, then gives the
/// processor away, then naps for tens of microseconds. One object a wait.
class Poll {
 public:
  void pause();

 private:
  int rounds_ = 0;
};

/// Waits for something that sends no signal, such as a word that a device writes. Returns what
/// `ready` says last; false means that `deadline` passed first. `ready` must not block, nor call a
/// driver: a stepped machine asks it from any of its threads.
bool poll_until(Clock& clock, TimePoint deadline, const std::function<bool()>& ready);

}  // namespace vma
