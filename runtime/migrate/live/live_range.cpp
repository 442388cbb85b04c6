#include "migrate/live/live_range.hpp"

#include "base/log.hpp"
#include "base/units.hpp"
#include "migrate/migration/migration_error.hpp"

#include <fmt/format.h>

#include <new>
#include <set>
#include <string>
#include <utility>

namespace vma {

LiveRange::LiveRange(const MoveParts& services, std::shared_ptr<MigrationTask> which)
    : parts(services),
      task(std::move(which)),
      allocation(*task->allocation()),
      since(parts.memory.driver().clock().now()),
      report(task->report()),
      notices(allocation, parts.callbacks),
      want(parts.memory.pressure(), task->terms.asks()) {
  report.failures.reserve(1);  // The first chunk that fails ends it.
}

void LiveRange::plan() {
  if (task->refusal) std::rethrow_exception(task->refusal);
  const SlotRange range = task->range;
  if (task->terms.choice == PlaceChoice::runtime) {
    parts.reach.require(allocation, range, task->to, live_move_call);
  }
  parts.reach.require_atomics(allocation, range, task->to, live_move_call);
  std::set<Location> sources;
  for (std::size_t slot = range.first; slot < range.end; ++slot) {
    const Location from = allocation.home(slot);
    if (from == task->to) continue;
    chunks.emplace_back(parts.memory, parts.engine, *this, slot, chunks.size());
    task->reserved.hand_over_to(chunks.back().transaction);
    sources.insert(from);
  }
  note_routes(report, sources, task->to);
  // Before the first copy: what the CPU writes from here on waits until the move has ended.
  allocation.revoke_cpu(range.first, range.end, task->to);
}

void LiveRange::require_movable() const {
  require_no_pin(allocation, live_move_call);
  require_no_loss(allocation, live_move_call);
  require_contents(allocation, task->range, live_move_call);
}

LiveChunk* LiveRange::first_left() noexcept {
  while (switched < chunks.size() && chunks[switched].switched()) ++switched;
  return switched < chunks.size() ? &chunks[switched] : nullptr;
}

LiveChunk::LiveChunk(Memory& memory, CopyEngine& engine, LiveRange& whole, std::size_t slot,
                     std::size_t which)
    : transaction(memory, engine, whole.allocation, slot, whole.task->to),
      range(whole),
      number(which) {}

void LiveRange::begun(LiveChunk& chunk) noexcept {
  if (chunk.begun) return;
  chunk.begun = parts.memory.driver().clock().now();
  parts.observers.tell(step_of(chunk, ChunkStep::Kind::begun));
}

void LiveRange::stood(StopKind kind, const GateTimes& times) noexcept {
  report.stop = kind;
  if (kind == StopKind::gate) stops.add_skew(times.skew());
  stops.add_stall(times.stall());
}

void LiveRange::tell_stood(const LiveChunk& first, const GateTimes& times,
                           std::size_t streams) noexcept {
  ChunkStep step = step_of(first, ChunkStep::Kind::stood);
  step.begin = times.last_arrival;
  step.end = times.opened;
  step.skew = times.skew();
  step.streams = static_cast<std::uint32_t>(streams);
  parts.observers.tell(step);
}

void LiveRange::gave_up(StopRefusal why) noexcept {
  ++report.retries;
  count(to_string(why));
}

void LiveRange::moved(LiveChunk& chunk, std::optional<std::uint64_t> copied_twice) noexcept {
  note_moved(report, chunk.transaction);
  report.bytes_copied_twice += copied_twice.value_or(0);
  report.chunks_live += copied_twice ? 1 : 0;
  if (!chunk.choice.reason.empty()) count(chunk.choice.reason);
  report.dark_max = std::max(report.dark_max, chunk.transaction.dark());
  chunk.ended = true;
  parts.observers.tell(step_of(chunk, ChunkStep::Kind::moved));
}

void LiveRange::failed(const LiveChunk& chunk, const std::exception& error) noexcept {
  const auto* known = dynamic_cast<const Error*>(&error);
  if (known != nullptr && known->kind() == ErrorKind::cancelled) return;
  note_failure(report, chunk.transaction, error);  // There is room for one.
}

void LiveRange::finish() noexcept {
  for (LiveChunk& chunk : chunks) {
    if (!chunk.begun || std::exchange(chunk.ended, true)) continue;
    parts.observers.tell(step_of(chunk, ChunkStep::Kind::stayed));
  }
  report.wall = parts.memory.driver().clock().now() - since;
  report.skew = stops.skew();
  report.stall = stops.stall();
  if (first_left() == nullptr) report.outcome = Outcome::done;  // Otherwise its error says.
  log_phases();
}

ChunkStep LiveRange::step_of(const LiveChunk& chunk, ChunkStep::Kind kind) const noexcept {
  ChunkStep step = vma::step_of(chunk.transaction, kind, report, task->terms);
  step.begin = chunk.begun.value_or(TimePoint(0));
  step.end = parts.memory.driver().clock().now();
  step.stall = chunk.stall;
  return step;
}

/// If the host is out of memory, a reason is less important than the move.
void LiveRange::count(std::string_view reason) noexcept {
  try {
    ++report.reasons[std::string(reason)];
  } catch (const std::bad_alloc&) {  // Not counted.
  }
}

/// Helps to explain why moves take as long as they do.
void LiveRange::log_phases() const {
  const auto us = [](std::chrono::nanoseconds time) { return in_seconds(time) * 1e6; };
  const Phases& phases = report.phases;
  log(LogLevel::debug,
      "{}: {} chunks, {} of them live, {} retries; us: cache {:.0f}, wait {:.0f}, copy {:.0f}, "
      "settle {:.0f}, unmap {:.0f}, map {:.0f}, grant {:.0f}, retire {:.0f}; longest stall {:.0f}",
      report.route, report.chunks_moved, report.chunks_live, report.retries, us(phases.cache),
      us(phases.wait), us(phases.copy), us(phases.settle), us(phases.unmap), us(phases.map),
      us(phases.grant), us(phases.retire), us(report.stall.max));
  for (const auto& [reason, count] : report.reasons)
    log(LogLevel::debug, "{}: {} times {}", report.route, count, reason);
}

}  // namespace vma
