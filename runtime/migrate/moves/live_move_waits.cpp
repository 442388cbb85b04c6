// What a live move waits for: budgets, pins, its own work, and the pauses between tries.
#include "migrate/moves/live_move.hpp"

#include "base/log.hpp"
#include "base/process_exit.hpp"
#include "base/units.hpp"
#include "migrate/moves/migration_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <utility>

namespace vma {
namespace {

/// For our own work that is no longer stopped and will end: a kernel of the application may occupy
/// every multiprocessor for seconds.
constexpr std::chrono::seconds patience(10);
/// The limit once the move has been cancelled, by the end of the runtime for instance.
constexpr std::chrono::seconds patience_cancelled(2);
/// For copies by copy engines, which nothing delays.
constexpr std::chrono::seconds patience_copy(2);

}  // namespace

/// Waits with no lock held except the move's claim and its copier: only a free of this allocation,
/// and moves off the same GPU, wait meanwhile. False: it did not end, and may go on writing.
bool LiveMove::ends_in_time(const std::function<bool(TimePoint)>& ended_by) {
  constexpr std::chrono::milliseconds look_period(5);
  const TimePoint begun = clock_.now();
  while (!ended_by(clock_.now() + look_period)) {
    const auto limit = task_.cancelled() ? patience_cancelled : patience;
    if (clock_.now() - begun >= limit) return false;
  }
  return true;
}

/// Waits for the work started for the chunk. If it does not end, its target is quarantined, and the
/// chunk is as if it had not been staged.
void LiveMove::unstage(LiveChunk& chunk) noexcept {
  if (!chunk.staged) return;
  chunk.staged = false;
  if (chunk.copier == nullptr) return;
  LiveCopier& copier = *std::exchange(chunk.copier, nullptr);
  bays_taken_[chunk.bay] = false;
  // A failed copy is not waited for again.
  if (!copier.busy(chunk.bay) || chunk.transaction.state() != Transaction::State::ready) return;
  try {
    if (ends_in_time([&](TimePoint time) { return copier.copied_by(chunk.bay, time); })) return;
    chunk.transaction.plan_again("a copy into it does not end");
  } catch (const std::exception& error) {
    log(LogLevel::warn, "an abandoned copy failed: {}", error.what());
    chunk.transaction.plan_again("a copy into it failed and may still be running");
  }
}

/// After a stop that was given up, waits for the work started before anything else is done with the
/// chunk (I6).
void LiveMove::stand_down(LiveChunk& chunk) noexcept {
  Transaction& transaction = chunk.transaction;
  try {
    if (chunk.settled && chunk.copier->busy(chunk.bay) &&
        !ends_in_time([&](TimePoint time) { return chunk.copier->settled_by(chunk.bay, time); })) {
      transaction.abandon_target("settling does not end");
    }
    transaction.end_copy(clock_.now() + patience_copy);
    if (chunk.choice.way == Way::stopped && transaction.state() == Transaction::State::copied) {
      transaction.discard_copy();  // The application has run since.
    }
  } catch (const std::exception& error) {
    log(LogLevel::warn, "work of an abandoned stop failed: {}", error.what());
    if (transaction.state() == Transaction::State::copied) {
      transaction.abandon_target("settling failed and may still be running");
    }
  }
}

void LiveMove::give_up_or_back_off(LiveChunk& chunk, const Gate::Refusal& refusal, bool stood) {
  require_going_on();
  stats_.add_refusal(refusal.why);
  ++report_.retries;
  count_reason(to_string(refusal.why));
  const TimePoint now = clock_.now();
  const auto tried = [&] {
    return fmt::format("the chunk at offset {} did not move, tried {} time(s) in {:.0f} ms; {}: {}",
                       chunk.transaction.slot() * allocation_.geometry().chunk_bytes,
                       chunk.tries + chunk.waits + 1, in_ms(now - chunk.first_try),
                       to_string(refusal.why), refusal.detail);
  };
  if (chunk.transaction.state() == Transaction::State::stayed) {
    throw Error(ErrorKind::driver_failure, live_move_call, tried());
  }
  // Such a try stops nothing: the deadline alone bounds how many there are.
  const bool only_waited =
      !stood && (refusal.why == StopRefusal::not_arrived || refusal.why == StopRefusal::capture);
  const bool often_enough = !only_waited && chunk.tries >= parts_.limits.gate_retries;
  if (often_enough || now >= chunk.deadline) {
    throw Error(ErrorKind::busy, live_move_call,
                fmt::format("{}. {}", tried(), advice(refusal.why, stood)));
  }
  // One of them may be a blocking stream that waits for the stop of another.
  if (refusal.why == StopRefusal::not_arrived)
    parts_.stops.attached().learn_kinds(allocation_.begin());
  if (refusal.why == StopRefusal::streams_changed) ++chunk.yields;
  widen_limit(refusal, stood);
  back_off(stood && refusal.why != StopRefusal::predicted_skew, chunk.tries);
  ++(only_waited ? chunk.waits : chunk.tries);
}

/// For reasons that are likely to end another try with the same limit, too. A measurement of the
/// backlogs stops nothing, so it counts only for the skew that it predicts.
void LiveMove::widen_limit(const Gate::Refusal& refusal, bool stood) noexcept {
  const bool late = refusal.why == StopRefusal::predicted_skew ||
                    refusal.why == StopRefusal::settle_late ||
                    (refusal.why == StopRefusal::not_arrived && stood);
  if (!late) return;
  const auto limit_max = std::max(parts_.limits.gate_limit, parts_.limits.gate_limit_max);
  gate_limit_ = std::min(2 * gate_limit_, limit_max);
}

/// If the host is out of memory, a reason is less important than the move.
void LiveMove::count_reason(std::string_view reason) noexcept {
  try {
    ++report_.reasons[std::string(reason)];
  } catch (const std::bad_alloc&) {  // Not counted.
  }
}

/// Collectives that wait for each other across GPUs may be cut in two by a gate, and need a while
/// to recover.
void LiveMove::back_off(bool may_be_cut, int attempt) {
  constexpr int limits_after_two = 20;
  const auto limit = parts_.limits.gate_limit;
  const auto pause =
      attempt < 2 || !may_be_cut ? limit * (attempt + 1) : limit * limits_after_two * (attempt - 1);
  task_.pause_until(clock_.now() + pause);
}

/// Waits so that the copy ends about when the next stop is allowed.
void LiveMove::pace_copy(const LiveChunk& chunk) {
  const std::chrono::nanoseconds estimate(static_cast<std::int64_t>(
      copy_ns_per_byte_ * static_cast<double>(chunk.transaction.size_bytes())));
  const TimePoint start =
      parts_.pace.book_copy(clock_.now(), chunk.transaction.size_bytes(), estimate);
  if (start > clock_.now()) task_.pause_until(start);
  require_going_on();
}

/// Returns how long it has waited for the stall budget.
std::chrono::nanoseconds LiveMove::pace_stop() {
  const TimePoint asked = clock_.now();
  while (true) {
    const TimePoint start = parts_.pace.next_stop(clock_.now());
    if (start <= clock_.now()) return clock_.now() - asked;
    task_.pause_until(start);
    require_going_on();
  }
}

void LiveMove::require_going_on() {
  ProcessExit::hold_back();
  if (!task_.cancelled() && !allocation_.being_freed) return;
  throw Error(ErrorKind::cancelled, live_move_call,
              fmt::format("after {} of {} chunks{}", report_.chunks_moved, report_.chunks,
                          allocation_.being_freed ? ", because the memory is being freed" : ""));
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
  return clock_.now() + parts_.limits.of_hold(options_).rest_limit;
}

}  // namespace vma
