#pragma once

#include "base/clock.hpp"
#include "base/mutex.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>

namespace vma {

/// Paces stops and copies: a caller that waits until `next_stop` before each stop exceeds the
/// budget, over any window of a second, by no more than the window's last stop; likewise for
/// copies. Stops may come in a burst that uses up the budget of a second. In the long run they are
/// paid for by the time since they began, so that stops longer than the budget are rarer than one
/// a second. Copies are spread evenly.
///
/// Has no clock: callers pass the time. Any thread.
class StallBudget {
 public:
  /// Zero means no limit.
  StallBudget(std::chrono::nanoseconds stall_per_second, std::uint64_t bytes_per_second);

  /// From now on, stops may use up so much more than the budget allows; it is paid for later.
  /// Whoever calls it last decides.
  void allow_ahead(std::chrono::nanoseconds stall);
  /// The earliest time for the next stop; `now` if it may come at once.
  TimePoint next_stop(TimePoint now) const;
  /// Work was stopped for `stall`, from `began` on. Stops that came before their time add up.
  void spent_stall(TimePoint began, std::chrono::nanoseconds stall) noexcept;

  /// When a copy that takes `estimate` may begin so that it ends no earlier than the next stop is
  /// allowed. Ask again while waiting: other copies or `allow_ahead` may change it.
  TimePoint next_copy(TimePoint now, std::chrono::nanoseconds estimate) const;
  /// Books a copy that begins now, if the copy budget allows that: copies are paid for by the time
  /// after they were started. It may end before the next stop is allowed.
  bool try_book_copy(TimePoint now, std::uint64_t size_bytes);

 private:
  TimePoint stop_after(TimePoint now) const VMART_REQUIRES(mutex_);
  TimePoint copy_after(TimePoint now) const VMART_REQUIRES(mutex_);
  /// The earliest time from `now` on at which the second before it has not used up the budget.
  TimePoint window_allows(TimePoint now) const VMART_REQUIRES(mutex_);
  std::chrono::nanoseconds used_before(TimePoint now) const VMART_REQUIRES(mutex_);
  std::chrono::nanoseconds debt_max() const VMART_REQUIRES(mutex_);

  struct Stop {
    TimePoint begin, end;
  };

  const std::chrono::nanoseconds stall_per_second_;
  const double pause_per_stall_;  // Zero: no limit, as for the next.
  const double nanoseconds_per_byte_;
  mutable Mutex mutex_;
  // By how much the budget may be overdrawn.
  std::chrono::nanoseconds ahead_ VMART_GUARDED_BY(mutex_){0};
  std::deque<Stop> recent_ VMART_GUARDED_BY(mutex_);  // Those of the last second, in order.
  // When all stops are paid for.
  TimePoint paid_by_ VMART_GUARDED_BY(mutex_) = TimePoint::min();
  TimePoint next_copy_ VMART_GUARDED_BY(mutex_) = TimePoint::min();
};

/// How many chunks share a stop: for the moves of a runtime, and for replays of them. A gate waits
/// for all that the program has launched, and the switch of a chunk takes far less than that.
struct GateShare {
  /// More than the 53 segments of a usual model, and fewer than the 64 locks of a thread that TSan
  /// can follow: a stop holds one for each allocation.
  static constexpr std::size_t chunks_max = 56;
  /// From a gate's last arrival until the first chunk settles, and from its last grant until it
  /// opens.
  static constexpr std::chrono::microseconds overhead{50};
  /// How much of a stop is planned: a chunk for which no time is left waits for another backlog,
  /// and the first switches after a long wait take up to twice as long.
  static constexpr double planned_share = 0.6;

  /// How long the chunks of a gate may take that is closed for at most `max_stall`.
  static constexpr std::chrono::nanoseconds planned(std::chrono::nanoseconds max_stall) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(planned_share * max_stall) -
           overhead;
  }
  /// The same of a suspension, `suspending` of which it takes itself. It is planned whole: what
  /// does not fit loses nothing, since the next one waits for nothing that was launched.
  static constexpr std::chrono::nanoseconds planned(std::chrono::nanoseconds max_stall,
                                                    std::chrono::nanoseconds suspending) {
    return max_stall - suspending - overhead;
  }
};

}  // namespace vma
