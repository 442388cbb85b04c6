#pragma once

#include "base/clock.hpp"

#include <atomic>

namespace vma {

class SteppedExecutor;

/// The time of a simulated machine.
///
/// Stepped: the executor's; a call that takes time lets other members run meanwhile. Threaded: one
/// count for the whole machine, which calls add to and waits move on; it never goes back.
class SimClock : public Clock {
 public:
  explicit SimClock(SteppedExecutor* stepped) : stepped_(stepped) {}

  TimePoint now() const override;
  std::chrono::steady_clock::time_point wake_time(TimePoint deadline) const override;
  void reached(TimePoint time) override;

  SteppedExecutor* stepped() const noexcept { return stepped_; }
  /// The calling thread is busy for so long.
  void spend(TimePoint duration);
  /// The calling thread has seen something that happens at `time`.
  void sleep_until(TimePoint time);

 private:
  SteppedExecutor* const stepped_;
  std::atomic<TimePoint::rep> ticks_{0};  // Threaded only.
};

}  // namespace vma
