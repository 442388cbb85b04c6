#pragma once

#include "base/clock.hpp"

#include <chrono>
#include <cstdint>

namespace vma {

/// Paces stops and copies: who waits until `next_stop` before each stop keeps work standing for no
/// more than the budget, over any window of a second, by more than the window's last stop; copies
/// likewise. Each stop pays for itself with the time from its begin, so stops come evenly and not
/// in bursts. One that begins up to a millisecond late shortens the wait for the next.
///
/// Knows no clock: callers bring the time. Not thread-safe: the lock of its owner guards it.
class StallBudget {
 public:
  /// Zero is no limit.
  StallBudget(std::chrono::nanoseconds stall_per_second, std::uint64_t bytes_per_second);

  /// The earliest time for the next stop; `now` if it may come at once.
  TimePoint next_stop(TimePoint now) const;
  /// Work stood for `stall`, from `began` on. Stops that came before their time add up.
  void spent_stall(TimePoint began, std::chrono::nanoseconds stall);

  /// The same for copies, which pay with the time after they were started.
  TimePoint next_copy(TimePoint now) const;
  void spent_bytes(TimePoint at, std::uint64_t bytes);

 private:
  double pause_per_stall_;  // Constant after construction, as is the next. Zero is no limit.
  double nanoseconds_per_byte_;
  TimePoint next_stop_ = TimePoint::min();
  TimePoint next_copy_ = TimePoint::min();
};

}  // namespace vma
