#pragma once

#include "base/clock.hpp"

#include <chrono>
#include <cstdint>

namespace vma {

/// Paces stops and copies: a caller that waits until `next_stop` before each stop exceeds the
/// budget, over any window of a second, by no more than the window's last stop; likewise for
/// copies. Each stop is paid for by the time since it began, so stops are spread evenly and not in
/// bursts. A stop that begins up to a millisecond late shortens the wait for the next.
///
/// Has no clock: callers pass the time. Not thread-safe: the lock of its owner guards it.
class StallBudget {
 public:
  /// Zero means no limit.
  StallBudget(std::chrono::nanoseconds stall_per_second, std::uint64_t bytes_per_second);

  /// The earliest time for the next stop; `now` if it may come at once.
  TimePoint next_stop(TimePoint now) const;
  /// Work was stopped for `stall`, from `began` on. Stops that came before their time add up.
  void spent_stall(TimePoint began, std::chrono::nanoseconds stall);

  /// Like `next_stop`, for copies, which are paid for by the time after they were started.
  TimePoint next_copy(TimePoint now) const;
  void spent_bytes(TimePoint at, std::uint64_t bytes);

 private:
  double pause_per_stall_;  // Constant after construction, as is the next. Zero: no limit.
  double nanoseconds_per_byte_;
  TimePoint next_stop_ = TimePoint::min();
  TimePoint next_copy_ = TimePoint::min();
};

}  // namespace vma
