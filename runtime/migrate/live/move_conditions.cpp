#include "migrate/live/move_conditions.hpp"

#include "base/log.hpp"
#include "base/process_exit.hpp"
#include "migrate/live/live_chunk.hpp"

#include <fmt/format.h>

#include <chrono>
#include <exception>

namespace vma {

MoveConditions::MoveConditions(const MoveParts& parts, MigrationTask& task, Allocation& allocation,
                               const MigrationReport& report)
    : parts_(parts),
      task_(task),
      clock_(parts.memory.driver().clock()),
      allocation_(allocation),
      report_(report) {}

void MoveConditions::require_going_on() const {
  ProcessExit::hold_back();
  if (!task_.cancelled() && !allocation_.being_freed) return;
  throw Error(ErrorKind::cancelled, live_move_call,
              fmt::format("after {} of {} chunks{}", report_.chunks_moved, report_.chunks,
                          allocation_.being_freed ? ", because the memory is being freed" : ""));
}

void MoveConditions::require_movable(TimePoint deadline) const {
  constexpr std::chrono::milliseconds look_period(1);
  while (!allocation_.may_move()) {
    if (!task_.options.wait_for_pins || clock_.now() >= deadline) {
      throw Error(ErrorKind::pinned, live_move_call,
                  fmt::format("the allocation at {:#x} {}", to_integer(allocation_.begin()),
                              allocation_.why_pinned()));
    }
    pause_until(clock_.now() + look_period);
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

/// A destroyed stream's last work may still run, and the stream can no longer be queried.
void MoveConditions::require_streams() const {
  const auto lost = parts_.stops.attached().drop_lost(allocation_.begin());
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
  task_.pause_until(time);
  require_going_on();
}

}  // namespace vma
