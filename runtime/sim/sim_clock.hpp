#pragma once

#include "base/clock.hpp"
#include "base/executor.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

namespace vma {

/// What a simulated machine needs from an executor that steps its threads in virtual time. Tests
/// provide one: `SteppedExecutor`.
class SteppedThreads : public Executor, public Stepper {
 public:
  /// Runs `body` as a member on the calling thread, alongside the other members. Throws: whatever
  /// the body throws. Requires: not called by a member, nor by two threads at once.
  virtual void run(const std::function<void()>& body) = 0;
  /// Lets another member run first, depending on the seed. Takes no time.
  virtual void give_way() = 0;
  virtual TimePoint now() const noexcept = 0;
  /// Lets virtual time pass for the calling member, while others run.
  virtual void sleep(TimePoint duration) = 0;
  /// A pseudo-random number determined by the seed.
  virtual std::uint64_t random() = 0;
};

/// The time of a simulated machine.
///
/// In stepped mode, it is the executor's time; a call that takes time lets other members run
/// meanwhile. In threaded mode, it is one count for the whole machine, which calls add to and waits
/// advance; it never goes back.
///
/// In threaded mode, a wait that times out in real time advances the count to its deadline. While a
/// thread is `Measuring`, this happens only if no stream has work that could continue, and only for
/// that thread: moving real bytes costs this computer's processors far more than the simulated
/// machine, and work that waits for a processor is not late. The rule is suspended while a thread
/// is `Stopped`, after `absence_max` without activity of the measuring threads, and after
/// `frozen_max` without an advance of the count. So every timeout expires eventually.
class SimClock : public Clock {
 public:
  static constexpr std::chrono::seconds absence_max{1};
  static constexpr std::chrono::seconds frozen_max{60};

  /// `working` returns whether a stream has work that can continue; called from any thread.
  explicit SimClock(SteppedThreads* stepped, std::function<bool()> working = nullptr)
      : stepped_(stepped), working_(std::move(working)) {}

  TimePoint now() const override;
  std::chrono::steady_clock::time_point wake_time(TimePoint deadline) const override;
  void reached(TimePoint time) override;
  bool waited(TimePoint deadline) override;
  void note_measuring(int change) noexcept override;
  void note_stopped(int change) noexcept override { standing_ += change; }

  SteppedThreads* stepped() const noexcept { return stepped_; }
  /// The calling thread is busy for this duration.
  void spend(TimePoint duration);
  /// The calling thread has observed an event at `time`.
  void sleep_until(TimePoint time);

 private:
  bool passes_by_waiting();

  SteppedThreads* const stepped_;
  const std::function<bool()> working_;
  // Threaded only.
  std::atomic<TimePoint::rep> ticks_{0};
  std::atomic<int> measuring_{0}, standing_{0};
  std::atomic<TimePoint::rep> moved_at_{0};  // Real time of the last change of the count.
  std::atomic<TimePoint::rep> sign_at_{0};   // Of the last activity of a measuring thread.
};

}  // namespace vma
