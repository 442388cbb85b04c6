#include "migrate/live/batch_stop.hpp"

#include "base/process_exit.hpp"
#include "base/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <span>
#include <utility>
#include <vector>

namespace vma {

std::vector<BatchSettling::Settler> BatchSettling::settlers_of(const LiveBatch& batch) {
  std::vector<Settler> settlers;
  for (const LiveChunk* const chunk : batch.chunks) {
    const bool listed =
        std::ranges::find(settlers, chunk->copier, &Settler::copier) != settlers.end();
    if (chunk->settles && !listed) settlers.push_back({chunk->copier, {}, false});
  }
  return settlers;
}

BatchSettling::BatchSettling(MigrationParts& parts, const LiveBatch& batch)
    : parts_(parts),
      clock_(parts.memory.driver().clock()),
      batch_(batch),
      settlers_(settlers_of(batch)) {}

void BatchSettling::arm(std::chrono::nanoseconds patience) {
  for (Settler& settler : settlers_) {
    std::vector<std::size_t> bays;
    for (const LiveChunk* const chunk : batch_.chunks) {
      if (chunk->settles && chunk->copier == settler.copier) bays.push_back(chunk->bay);
    }
    settler.settling = settler.copier->arm(bays, batch_.front().range.task->options.paranoid);
    settler.armed = true;
  }
  ticket_ = parts_.stops.watchdog().arm(later(clock_.now(), patience), [this] { let_go(); });
}

void BatchSettling::let_go() noexcept {
  for (const Settler& settler : settlers_) {
    if (settler.armed) settler.copier->go(settler.settling);
  }
}

void BatchSettling::disarm() noexcept {
  parts_.stops.watchdog().disarm(std::exchange(ticket_, Watchdog::Ticket::none));
}

bool BatchSettling::go() {
  disarm();
  const auto gone = [](const Settler& settler) { return settler.copier->gone(settler.settling); };
  if (std::ranges::any_of(settlers_, gone)) return false;
  let_go();
  gone_ = clock_.now();
  return true;
}

void BatchSettling::note_settled(const LiveChunk& chunk) {
  if (!chunk.settles || settlers_.size() != 1) return;
  settled_bytes_ += chunk.transaction.size_bytes();
  parts_.forecast.note_filled_within(chunk.fill(), settled_bytes_, clock_.now() - gone_);
}

BatchStop::BatchStop(MigrationParts& parts, const LiveRanges& ranges, LiveBatch& batch,
                     std::chrono::nanoseconds max_stall, Stops::Turn& turn)
    : parts_(parts),
      clock_(parts.memory.driver().clock()),
      batch_(batch),
      max_stall_(max_stall),
      settling_(parts, batch),
      program_(parts, ranges, batch, settling_.any(), turn, [this] { settling_.let_go(); }) {}

// --- Before the streams stop

/// Nothing is left of the try if it was refused or failed.
template <typename Body>
std::optional<StopRefusal> BatchStop::off_unless_done(Body&& body) {
  const Measuring measuring(clock_);
  try {
    auto refusal = body();
    if (refusal) call_off();
    return refusal;
  } catch (...) {
    call_off();
    throw;
  }
}

std::optional<StopRefusal> BatchStop::look() {
  auto refusal = off_unless_done([this] {
    ProcessExit::hold_back();
    return program_.look();
  });
  call_off();
  return refusal;
}

std::optional<StopRefusal> BatchStop::send() {
  return off_unless_done([this] { return tell_streams(); });
}

std::optional<StopRefusal> BatchStop::tell_streams() {
  ProcessExit::hold_back();
  program_.take_turn();  // No slow work beside a closed gate.
  parts_.copiers.await_engines();
  parts_.memory.chunks().keepers().rehearse_switch();  // With nothing stopped yet.
  let_through_ = clock_.now();
  if (auto refusal = program_.plan()) return refusal;
  asked_ = clock_.now();
  if (auto refusal = Stops::pause_loads(no_loads_, clock_, parts_.limits.gate_limit))
    return refusal;
  if (settling_.any()) settling_.arm(program_.patience());
  tried_ = true;
  return program_.send();
}

bool BatchStop::await_first(TimePoint until) {
  if (!program_.at_gate()) return true;
  const Measuring measuring(clock_);
  return program_.await_first(until);
}

// --- While the streams are stopped

std::optional<StopRefusal> BatchStop::switch_chunks() {
  const Measuring measuring(clock_);
  std::optional<StopRefusal> refusal;
  std::exception_ptr failure;
  try {
    refusal = close_and_switch();
  } catch (...) {
    failure = std::current_exception();
  }
  program_.open();
  for (LiveChunk* const chunk : batch_.chunks) {
    try {
      chunk->transaction.grant_rest(chunk->range.report.phases);
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  call_off();
  if (failure) std::rethrow_exception(failure);
  return refusal;
}

void BatchStop::call_off() noexcept {
  program_.open();
  program_.let_go();
  settling_.disarm();
  settling_.let_go();
  no_loads_.reset();
}

std::optional<StopRefusal> BatchStop::close_and_switch() {
  if (auto refusal = program_.close()) {
    overdue_ = program_.at_gate() && settling_.any() && refusal->why == StopRefusal::not_arrived &&
               program_.times().first_arrival == TimePoint(0);
    return refusal;
  }
  closed_ = clock_.now();
  for_each_range(batch_, [&](LiveRange& range) { range.report.phases.wait += closed_ - asked_; });
  if (auto refusal = begin_filling()) return refusal;
  if (auto refusal = switch_first()) return refusal;
  switch_others();
  return std::nullopt;
}

/// Starts to copy what the application wrote since the live copies, or everything.
std::optional<StopRefusal> BatchStop::begin_filling() {
  Phases& phases = batch_.front().range.report.phases;
  if (settling_.any()) {
    const PhaseTimer timer(clock_, phases.settle);
    if (!settling_.go()) {
      return StopRefusal{StopRefusal::opened_by_watchdog,
                         "the work that copies changes started before everything had stopped"};
    }
  }
  if (batch_.way() == Way::stopped) {
    const PhaseTimer timer(clock_, phases.copy);
    for (LiveChunk* const chunk : batch_.chunks)
      chunk->transaction.start_copy(batch_.copies_under());
  }
  return std::nullopt;
}

/// A chunk that settles does so while its slot is switched, which is not used meanwhile: settling
/// goes through other mappings. But an unmap would wait for the copy engine.
std::optional<StopRefusal> BatchStop::switch_first() {
  LiveChunk& first = batch_.front();
  const std::chrono::nanoseconds limit = program_.settle_limit();
  if (!first.settles) {
    if (!fill(first, closed_ + limit)) return not_filled(first, limit);
    note_filled(first);
  }
  if (clock_.now() - let_through_ >= ask_period) ask();
  if (auto refusal = program_.require_same()) return refusal;
  if (!program_.commit()) {
    return StopRefusal{
        StopRefusal::opened_by_watchdog,
        fmt::format("{} stopped for longer than {:.1f} ms, mostly by a driver call of the runtime, "
                    "so {}",
                    program_.at_gate() ? "the streams were" : "the program's work was",
                    in_ms(limit), program_.at_gate() ? "the gate was opened" : "it was let go on")};
  }
  show(first);
  if (first.settles) {
    const bool waits = !first.copier->settled(first.bay);
    if (!fill(first, closed_ + limit)) {
      first.transaction.take_back(first.range.report.phases);
      return not_filled(first, limit);
    }
    if (waits) note_filled(first);
    settling_.note_settled(first);
  }
  first.transaction.keep_target();
  return std::nullopt;
}

StopRefusal BatchStop::not_filled(const LiveChunk& chunk, std::chrono::nanoseconds limit) const {
  return {StopRefusal::settle_late,
          fmt::format("{} was not copied within {:.1f} ms while {} stopped",
                      chunk.settles ? "what was written since the first copy" : "the chunk",
                      in_ms(limit),
                      program_.at_gate() ? "the streams were" : "the program's work was")};
}

/// As far as the time allows. The next chunk settles while one is switched. The grant that has just
/// returned shows that no other thread keeps the driver from the next one.
void BatchStop::switch_others() {
  const std::optional<TimePoint> suspended = program_.suspended_at();
  const TimePoint end = max_stall_ + (suspended ? *suspended - parts_.suspending().on : closed_);
  for (LiveChunk* const chunk : std::span(batch_.chunks).subspan(1)) {
    if (program_.given_up()) return;
    const auto switching =
        parts_.forecast.switch_time(chunk->transaction.planned_switch(program_.gpus()));
    if (clock_.now() + switching > end || !fill(*chunk, end - switching)) return;
    show(*chunk);
    settling_.note_settled(*chunk);
    chunk->transaction.keep_target();
  }
}

/// False: the target is not complete at the deadline.
bool BatchStop::fill(LiveChunk& chunk, TimePoint deadline) {
  Phases& phases = chunk.range.report.phases;
  if (chunk.settles) {
    const PhaseTimer timer(clock_, phases.settle);
    return chunk.copier->settled_by(chunk.bay, deadline);
  }
  if (chunk.choice.way == Way::stopped) {
    const PhaseTimer timer(clock_, phases.copy);
    if (!chunk.transaction.copy_done_by(deadline)) return false;
    chunk.transaction.finish_copy();
  }
  return true;
}

/// The first chunk is filled from the moment at which the gate closes. In a small one other costs
/// outweigh its bytes. Requires: the caller had to wait for it.
void BatchStop::note_filled(const LiveChunk& first) {
  constexpr std::uint64_t telling_bytes = 16 << 20;
  const std::uint64_t size_bytes = first.transaction.size_bytes();
  if (size_bytes < telling_bytes) return;
  const TimePoint begin = first.settles ? settling_.gone() : closed_;
  parts_.forecast.note_filled(first.fill(), size_bytes, clock_.now() - begin);
}

/// GPUs on which no attached stream runs get access once the gate is open: work there must not use
/// the slot meanwhile, and each grant would make the stop longer.
void BatchStop::show(LiveChunk& chunk) {
  chunk.transaction.show_target(program_.gpus(), chunk.range.report.phases);
  let_through_ = clock_.now();
  parts_.forecast.note_switched(chunk.transaction.planned_switch(program_.gpus()),
                                chunk.transaction.dark());
}

/// A thread in cuCtxDestroy blocks every grant and unmap of other threads. Probes that just before
/// the slot goes dark; if the probe blocks, the watchdog opens.
void BatchStop::ask() {
  parts_.memory.chunks().keepers().probe_grant();
  let_through_ = clock_.now();
}

}  // namespace vma
