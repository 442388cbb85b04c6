// What a live move waits for: budgets, pins, and the pauses between tries.
#include "migrate/live_move.hpp"
#include "migrate/mover.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vma {
/// Collectives that wait for each other across GPUs may be cut in two by a gate, and need a while
/// to get out of it.
void LiveMove::back_off(int attempt) {
  constexpr int limits_after_two = 20;
  const auto limit = mover_.limits_.gate_limit;
  const auto pause = attempt < 2 ? limit * (attempt + 1) : limit * limits_after_two * (attempt - 1);
  task_.pause_until(clock_.now() + pause);
}

/// Waits so that the copy ends about when the next stop is allowed.
void LiveMove::pace_copy(const LiveChunk& chunk) {
  const std::chrono::nanoseconds estimate(static_cast<std::int64_t>(
      copy_ns_per_byte_ * static_cast<double>(chunk.transaction.size_bytes())));
  TimePoint start{0};
  {
    const MutexLock lock(mover_.budget_mutex_);
    const TimePoint now = clock_.now();
    start = std::max(mover_.budget_.next_copy(now), mover_.budget_.next_stop(now) - estimate);
    mover_.budget_.spent_bytes(std::max(start, now), chunk.transaction.size_bytes());
  }
  if (start > clock_.now()) task_.pause_until(start);
  require_going_on();
}

void LiveMove::pace_stop() {
  while (true) {
    TimePoint start{0};
    {
      const MutexLock lock(mover_.budget_mutex_);
      start = mover_.budget_.next_stop(clock_.now());
    }
    if (start <= clock_.now()) return;
    task_.pause_until(start);
    require_going_on();
  }
}

void LiveMove::require_going_on() {
  if (!task_.cancelled() && !allocation_.being_freed) return;
  throw Error(ErrorKind::cancelled, live_move_call,
              fmt::format("after {} of {} chunks{}", report_.chunks_moved, report_.chunks,
                          allocation_.being_freed ? ", since the memory is being freed" : ""));
}

void LiveMove::require_movable(TimePoint deadline) {
  constexpr std::chrono::milliseconds look_period(1);
  while (!allocation_.may_move()) {
    if (!options_.wait_for_pins || clock_.now() >= deadline) {
      throw Error(ErrorKind::pinned, live_move_call,
                  fmt::format("the allocation at {:#x} {}", to_integer(allocation_.begin()),
                              allocation_.why_pinned()));
    }
    task_.pause_until(clock_.now() + look_period);
    require_going_on();
  }
  if (allocation_.poisoned()) {
    throw Error(ErrorKind::poisoned, live_move_call,
                fmt::format("the allocation at {:#x}", to_integer(allocation_.begin())));
  }
  if (allocation_.any_dropped(task_.range.first, task_.range.end)) {
    throw Error(ErrorKind::dropped, live_move_call,
                fmt::format("the allocation at {:#x} has no memory there until vma::resume",
                            to_integer(allocation_.begin())));
  }
}

TimePoint LiveMove::chunk_deadline() const {
  constexpr std::chrono::milliseconds limit_max = std::chrono::days(1);  // Times add up to limits.
  return clock_.now() + (options_.deadline.count() > 0 ? std::min(options_.deadline, limit_max)
                                                       : mover_.limits_.hold_limit);
}

}  // namespace vma
