#pragma once

#include "base/clock.hpp"

#include <chrono>
#include <cstdint>
#include <deque>

namespace vma {

/// Paces stops and copies: a caller that waits until `next_stop` before each stop exceeds the
/// budget, over any window of a second, by no more than the window's last stop; likewise for
/// copies. Stops may come in a burst that uses up the budget of a second. In the long run they are
/// paid for by the time since they began, so that stops longer than the budget are rarer than one
/// a second. Copies are spread evenly.
///
/// Has no clock: callers pass the time. Not thread-safe: the lock of its owner guards it.
class StallBudget {
 public:
  /// Zero means no limit.
  StallBudget(std::chrono::nanoseconds stall_per_second, std::uint64_t bytes_per_second);

  /// From now on, stops may use up so much more than the budget allows; it is paid for later.
  void allow_ahead(std::chrono::nanoseconds stall) { ahead_ = stall; }
  /// The earliest time for the next stop; `now` if it may come at once.
  TimePoint next_stop(TimePoint now) const;
  /// Work was stopped for `stall`, from `began` on. Stops that came before their time add up.
  void spent_stall(TimePoint began, std::chrono::nanoseconds stall) noexcept;

  /// Like `next_stop`, for copies, which are paid for by the time after they were started.
  TimePoint next_copy(TimePoint now) const;
  void spent_bytes(TimePoint at, std::uint64_t bytes);

 private:
  /// The earliest time from `now` on at which the second before it has not used up the budget.
  TimePoint window_allows(TimePoint now) const;
  std::chrono::nanoseconds used_before(TimePoint now) const;
  std::chrono::nanoseconds debt_max() const;

  struct Stop {
    TimePoint begin, end;
  };

  const std::chrono::nanoseconds stall_per_second_;
  const double pause_per_stall_;  // Zero: no limit, as for the next.
  const double nanoseconds_per_byte_;
  std::chrono::nanoseconds ahead_{0};     // By how much the budget may be overdrawn.
  std::deque<Stop> recent_;               // Those of the last second, in order.
  TimePoint paid_by_ = TimePoint::min();  // When all stops are paid for.
  TimePoint next_copy_ = TimePoint::min();
};

}  // namespace vma
