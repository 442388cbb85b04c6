#pragma once

#include <chrono>
#include <functional>

namespace vma {

/// Time since the clock's own start.
using TimePoint = std::chrono::nanoseconds;
constexpr TimePoint never = TimePoint::max();

/// `from + by`, or `never` where that does not fit: limits may be as long as a program likes.
constexpr TimePoint later(TimePoint from, std::chrono::nanoseconds by) {
  return by > never - from ? never : from + by;
}

/// The time that a machine lives in: the processor's on real machines, virtual on simulated ones.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
  /// When a thread that waits for `deadline` gives up, on the processor's clock.
  virtual std::chrono::steady_clock::time_point wake_time(TimePoint deadline) const = 0;
  /// It is that late at least; a virtual clock follows.
  virtual void reached(TimePoint) {}
  /// A wait has lasted until its deadline by the processor's clock. Returns whether it has by this
  /// one: the time of a simulated machine does not pass merely because it simulates slowly.
  virtual bool waited(TimePoint deadline) {
    reached(deadline);
    return true;
  }
  /// See `Measuring` and `Standing`. Real time needs to know neither.
  virtual void note_measuring(int change) noexcept { static_cast<void>(change); }
  virtual void note_standing(int change) noexcept { static_cast<void>(change); }
};

/// In its scope the calling thread holds what the machine does against limits of time. Meanwhile
/// the time of a simulated machine passes only by what the machine does, by driver calls, and where
/// nothing that it has to do can go on; not because this computer is slow or busy.
class Measuring {
 public:
  explicit Measuring(Clock& clock) : clock_(clock) { clock_.note_measuring(1); }
  ~Measuring() { clock_.note_measuring(-1); }
  Measuring(const Measuring&) = delete;
  Measuring& operator=(const Measuring&) = delete;

 private:
  Clock& clock_;
};

/// In its scope the calling thread stands in a driver call that something else has to end. Limits
/// go by real time meanwhile, also on a simulated machine.
class Standing {
 public:
  explicit Standing(Clock& clock) : clock_(clock) { clock_.note_standing(1); }
  ~Standing() { clock_.note_standing(-1); }
  Standing(const Standing&) = delete;
  Standing& operator=(const Standing&) = delete;

 private:
  Clock& clock_;
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
