#include "migrate/live/move_conditions.hpp"

#include "base/log.hpp"
#include "base/process_exit.hpp"
#include "base/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>

namespace vma {

MoveConditions::MoveConditions(MigrationParts& parts, const LiveRanges& ranges)
    : parts_(parts),
      clock_(parts.memory.driver().clock()),
      ranges_(ranges),
      gate_limit_(parts.limits.gate_limit) {}

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
    parts_.memory.contexts().await_work();
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

// --- Tries to stop

TimePoint MoveConditions::deadline(const LiveRange& range) const {
  const TimePoint begun = range.pinned_since.value_or(clock_.now());
  return later(begun, parts_.limits.patience_with_gates(range.task->options));
}

void MoveConditions::begin_tries(LiveBatch& batch) const {
  batch.first_try = clock_.now();
  batch.deadline = deadline(batch.front().range);
}

void MoveConditions::await_budget(LiveBatch& batch) const {
  const TimePoint asked = clock_.now();
  await([this](TimePoint now) { return parts_.budget.next_stop(now); });
  batch.deadline += clock_.now() - asked;
}

std::optional<Error> MoveConditions::give_up_or_back_off(LiveBatch& batch,
                                                         const StopRefusal& refusal, bool stopped) {
  const TimePoint now = clock_.now();
  const LiveChunk* const broken = batch.broken();
  const LiveChunk& named = broken != nullptr ? *broken : batch.front();
  const Allocation& allocation = named.range.allocation;
  const auto tried = [&] {
    return fmt::format("the chunk at offset {} did not move, tried {} time(s) in {:.0f} ms; {}: {}",
                       named.transaction.slot() * allocation.geometry().chunk_bytes,
                       batch.tries + batch.waits + 1, in_ms(now - batch.first_try),
                       to_string(refusal.why), refusal.detail);
  };
  if (refusal.why == StopRefusal::not_arrived && stopped)
    parts_.stops.attached().stop_together(allocation.begin());
  if (broken != nullptr) return Error(ErrorKind::driver_failure, live_move_call, tried());
  // Such a try stops nothing: the deadline alone bounds how many there are.
  const bool only_waited =
      !stopped && (refusal.why == StopRefusal::not_arrived || refusal.why == StopRefusal::capture ||
                   refusal.why == StopRefusal::copies_busy);
  const bool often_enough = !only_waited && batch.tries >= parts_.limits.gate_retries;
  if (often_enough || now >= batch.deadline) {
    return Error(ErrorKind::busy, live_move_call,
                 fmt::format("{}. {}", tried(), advice(refusal.why, stopped)));
  }
  if (refusal.why == StopRefusal::streams_changed) ++batch.yields;
  widen_limit(refusal, stopped);
  back_off(stopped && refusal.why != StopRefusal::predicted_skew, batch.tries);
  // All copies of the program have waited for this try: they get at least as long as that.
  if (refusal.why == StopRefusal::copies_busy)
    pause_until(clock_.now() + NoCopyScopes::unstopped_limit * (batch.waits + 1));
  ++(only_waited ? batch.waits : batch.tries);
  return std::nullopt;
}

/// For reasons that are likely to end another try with the same limit, too. A measurement of the
/// backlogs stops nothing, so it counts only for the skew that it predicts.
void MoveConditions::widen_limit(const StopRefusal& refusal, bool stopped) noexcept {
  const bool late = refusal.why == StopRefusal::predicted_skew ||
                    refusal.why == StopRefusal::settle_late ||
                    (refusal.why == StopRefusal::not_arrived && stopped);
  if (!late) return;
  const auto limit_max = std::max(parts_.limits.gate_limit, parts_.limits.gate_limit_max);
  gate_limit_ = std::min(2 * gate_limit_, limit_max);
}

/// Collectives that wait for each other across GPUs may be cut in two by a gate, and need a while
/// to recover.
void MoveConditions::back_off(bool may_be_cut, int attempt) const {
  constexpr int limits_after_two = 20;
  const auto limit = parts_.limits.gate_limit;
  const auto pause =
      attempt < 2 || !may_be_cut ? limit * (attempt + 1) : limit * limits_after_two * (attempt - 1);
  pause_until(clock_.now() + pause);
}

}  // namespace vma
