#include "migrate/live/move_conditions.hpp"

#include "base/log.hpp"
#include "base/process_exit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>

namespace vma {

MoveConditions::MoveConditions(const MoveParts& parts, const LiveRanges& ranges)
    : parts_(parts), clock_(parts.memory.driver().clock()), ranges_(ranges) {}

void MoveConditions::require_going_on() const {
  ProcessExit::hold_back();
  if (ranges_.any_unwanted()) throw UnwantedRange{};
}

bool MoveConditions::movable(const LiveRange& range, TimePoint deadline) const {
  constexpr std::chrono::milliseconds look_period(1);
  const bool may_wait = range.task->options.wait_for_pins && clock_.now() < deadline;
  if (!range.allocation.may_move() && may_wait) {
    pause_until(clock_.now() + look_period);
    return false;
  }
  range.require_movable();
  return true;
}

void MoveConditions::require_movable(const LiveRange& range, TimePoint deadline) const {
  while (!movable(range, deadline)) {
  }
}

/// A destroyed stream's last work may still run, and the stream can no longer be queried.
void MoveConditions::require_streams(const LiveRange& range) const {
  const auto lost = parts_.stops.attached().drop_lost(range.allocation.begin());
  if (lost.empty()) return;
  try {
    parts_.memory.contexts().drain();
  } catch (const std::exception& error) {
    log(LogLevel::warn, "cannot wait for the work of a destroyed stream: {}", error.what());
  }
  throw Error(ErrorKind::invalid_argument, live_move_call,
              fmt::format("{} attached stream(s) were destroyed before they were detached; they "
                          "are detached now",
                          lost.size()));
}

void MoveConditions::pause_until(TimePoint time) const {
  await([time](TimePoint) { return time; });
}

/// The first migration's task wakes it up early; the others are looked after in between.
void MoveConditions::await(const std::function<TimePoint(TimePoint)>& allowed) const {
  constexpr std::chrono::milliseconds look_period(5);
  while (true) {
    const TimePoint now = clock_.now(), time = allowed(now);
    ranges_.front().task->pause_until(std::min(time, now + look_period));
    require_going_on();
    if (time <= now) return;
  }
}

}  // namespace vma
