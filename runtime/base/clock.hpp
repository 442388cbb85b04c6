#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace vma {

/// Time since the clock's own start.
using TimePoint = std::chrono::nanoseconds;
constexpr TimePoint never = TimePoint::max();

/// `from + by`, or `never` if that overflows, because a program may set arbitrarily long limits.
template <typename Rep, typename Period>
constexpr TimePoint later(TimePoint from, std::chrono::duration<Rep, Period> by) {
  // Compared in its own unit, because the conversion to nanoseconds may overflow too.
  const auto most = std::chrono::duration_cast<std::chrono::duration<Rep, Period>>(never - from);
  return by > most ? never : from + by;
}

/// The time of a machine: real on real machines, virtual on simulated ones.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
  /// When a thread that waits for `deadline` gives up, by the processor's clock.
  virtual std::chrono::steady_clock::time_point wake_time(TimePoint deadline) const = 0;
  /// An event happened at this time, so it is at least that late. A virtual clock advances to it.
  virtual void reached(TimePoint) {}
  /// A wait has lasted until its deadline in real time. Returns whether it has by this clock: the
  /// time of a simulated machine does not pass just because the simulation is slow.
  virtual bool waited(TimePoint deadline) {
    reached(deadline);
    return true;
  }
  /// See `Measuring` and `Stopped`. A real clock ignores both.
  virtual void note_measuring(int change) noexcept { static_cast<void>(change); }
  virtual void note_stopped(int change) noexcept { static_cast<void>(change); }
};

/// While it exists, the calling thread measures the machine's work against time limits. The time of
/// a simulated machine then advances only by its work, by driver calls, and when none of its work
/// can continue, but not because this computer is slow or busy.
class Measuring {
 public:
  explicit Measuring(Clock& clock) : clock_(clock) { clock_.note_measuring(1); }
  ~Measuring() { clock_.note_measuring(-1); }
  Measuring(const Measuring&) = delete;
  Measuring& operator=(const Measuring&) = delete;

 private:
  Clock& clock_;
};

/// Adds the duration of its scope to a phase.
class PhaseTimer {
 public:
  PhaseTimer(Clock& clock, std::chrono::nanoseconds& phase)
      : clock_(clock), phase_(phase), start_(clock.now()) {}
  ~PhaseTimer() { phase_ += clock_.now() - start_; }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  Clock& clock_;
  std::chrono::nanoseconds& phase_;
  TimePoint start_;
};

/// While it exists, the calling thread blocks in a driver call that something else has to end.
/// Limits then use real time, even on a simulated machine.
class Stopped {
 public:
  explicit Stopped(Clock& clock) : clock_(clock) { clock_.note_stopped(1); }
  ~Stopped() { clock_.note_stopped(-1); }
  Stopped(const Stopped&) = delete;
  Stopped& operator=(const Stopped&) = delete;

 private:
  Clock& clock_;
};

/// The processor's monotonic clock.
class SteadyClock : public Clock {
 public:
  TimePoint now() const override;
  std::chrono::steady_clock::time_point wake_time(TimePoint deadline) const override;
};

/// Waits between two polls of something that sends no signal: first spins, then yields the
/// processor, then sleeps for tens of microseconds. One object per wait.
class Poll {
 public:
  void pause();

 private:
  int rounds_ = 0;
};

/// Waits for something that sends no signal, such as a word that a device writes. Returns the last
/// result of `ready`; false if `deadline` passed first. `ready` must not block or call a driver,
/// because a stepped machine calls it from any of its threads.
bool poll_until(Clock& clock, TimePoint deadline, const std::function<bool()>& ready);

/// Waits for the time alone, as `poll_until` does.
inline void nap_until(Clock& clock, TimePoint time) {
  poll_until(clock, time, [] { return false; });
}

/// Decides which thread of a stepped machine runs next. Its threads run one at a time. Every point
/// where they may lose their turn is a call of this class, so the order of steps depends only on a
/// seed.
class Stepper {
 public:
  virtual ~Stepper() = default;

  /// The stepper of the calling thread; null on an ordinary thread.
  static Stepper* current() noexcept;

  /// May let another thread run first, depending on the seed.
  virtual void yield() = 0;
  /// Returns true once `ready` does, or false if virtual time reaches `deadline` first. Any thread
  /// of the stepper calls `ready` while all others are paused, so it must not block.
  virtual bool wait(const std::function<bool()>& ready, TimePoint deadline) = 0;

 protected:
  static void set_current(Stepper* stepper) noexcept;
};

/// Stamps events with the time of a clock. If the clock is real and the processor's counter has the
/// same rate on all cores, uses the counter: that takes 10 ns instead of the 30 to 40 ns of reading
/// a clock on a virtual machine. Otherwise a stamp is the clock's time.
class TickClock {
 public:
  /// Requires: `clock` outlives this object.
  explicit TickClock(const Clock& clock);

  // --- Any thread
  std::int64_t stamp() const noexcept {
    return by_counter_ ? read_counter() : clock_.now().count();
  }
  bool by_counter() const noexcept { return by_counter_; }

  // --- One thread at a time
  /// Call this before converting stamps to times; the sooner after the stamps, the more precise.
  /// Costs as much as a few clock reads.
  void compare() noexcept;
  /// At most the time of the last `compare`. Requires: the stamp was taken after construction and
  /// before that call.
  TimePoint time_of(std::int64_t stamp) const noexcept;

 private:
  struct Pair {
    std::int64_t ticks = 0;
    TimePoint time{0};
  };
  static std::int64_t read_counter() noexcept {
#if defined(__x86_64__)
    return static_cast<std::int64_t>(__builtin_ia32_rdtsc());
#elif defined(__aarch64__)
    std::uint64_t ticks = 0;
    asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return static_cast<std::int64_t>(ticks);
#else
    return 0;
#endif
  }
  Pair read_both() const noexcept;

  const Clock& clock_;
  const bool by_counter_;
  const Pair first_;
  Pair last_;
};

}  // namespace vma
