#include "migrate/live/live_account.hpp"

#include "base/log.hpp"
#include "base/units.hpp"
#include "migrate/migration/migration_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <string>
#include <utility>

namespace vma {

LiveAccount::LiveAccount(const MoveParts& parts, const MigrationTask& task,
                         const Allocation& allocation, MigrationReport& report)
    : parts_(parts),
      task_(task),
      allocation_(allocation),
      clock_(parts.memory.driver().clock()),
      report_(report) {
  report_.failures.reserve(1);  // The first chunk that fails ends the move.
}

void LiveAccount::crosses(Location from) {
  report_.route += fmt::format("{}{}->{}", report_.route.empty() ? "" : ", ", to_string(from),
                               to_string(task_.to));
}

void LiveAccount::begun(LiveChunk& chunk) noexcept {
  if (chunk.begun) return;
  chunk.begun = clock_.now();
  parts_.observers.tell(step_of(chunk, ChunkStep::Kind::begun));
}

void LiveAccount::stood(StopKind kind, const GateTimes& times) noexcept {
  report_.stop = kind;
  if (kind == StopKind::gate) stats_.add_skew(times.skew());
  stats_.add_stall(times.stall());
}

void LiveAccount::tell_stood(const LiveChunk& first, const GateTimes& times,
                             std::size_t streams) noexcept {
  ChunkStep step = step_of(first, ChunkStep::Kind::stood);
  step.begin = times.last_arrival;
  step.end = times.opened;
  step.skew = times.skew();
  step.streams = static_cast<std::uint32_t>(streams);
  parts_.observers.tell(step);
}

void LiveAccount::gave_up(StopRefusal why) noexcept {
  ++report_.retries;
  count(to_string(why));
}

void LiveAccount::used_limit(std::chrono::nanoseconds gate_limit) noexcept {
  report_.gate_limit = std::max(report_.gate_limit, gate_limit);
}

void LiveAccount::moved(LiveChunk& chunk, std::optional<std::uint64_t> copied_twice) noexcept {
  const Transaction& transaction = chunk.transaction;
  ++report_.chunks_moved;
  report_.bytes_moved += transaction.size_bytes();
  report_.bytes_copied_twice += copied_twice.value_or(0);
  report_.chunks_live += copied_twice ? 1 : 0;
  if (transaction.remapped()) report_.bytes_remapped += transaction.size_bytes();
  if (!chunk.choice.reason.empty()) count(chunk.choice.reason);
  report_.dark_max = std::max(report_.dark_max, transaction.dark());
  chunk.ended = true;
  parts_.observers.tell(step_of(chunk, ChunkStep::Kind::moved));
}

void LiveAccount::failed(const LiveChunk& chunk, const std::exception& error) noexcept {
  const auto* known = dynamic_cast<const Error*>(&error);
  if (known != nullptr && known->kind() == ErrorKind::cancelled) return;
  const Transaction& transaction = chunk.transaction;
  // Reserved by the constructor.
  report_.failures.push_back({transaction.slot() * allocation_.geometry().chunk_bytes,
                              {},
                              transaction.state() == Transaction::State::poisoned});
  try {
    report_.failures.back().reason = error.what();
  } catch (const std::bad_alloc&) {  // Recorded without it.
  }
}

void LiveAccount::stayed(LiveChunk& chunk) noexcept {
  if (!chunk.begun || std::exchange(chunk.ended, true)) return;
  ChunkStep step = step_of(chunk, ChunkStep::Kind::stayed);
  const std::size_t offset = chunk.transaction.slot() * allocation_.geometry().chunk_bytes;
  const auto failure = std::ranges::find(report_.failures, offset, &ChunkFailure::offset);
  try {
    step.why =
        failure == report_.failures.end() ? "the migration has already ended" : failure->reason;
  } catch (const std::bad_alloc&) {  // Reported without its reason.
  }
  parts_.observers.tell(step);
}

void LiveAccount::finish(std::chrono::nanoseconds wall, std::size_t chunks) noexcept {
  report_.wall = wall;
  report_.skew = stats_.skew();
  report_.stall = stats_.stall();
  if (static_cast<std::size_t>(report_.chunks_moved) == chunks) {
    report_.outcome = Outcome::done;
  } else if (report_.failures.empty()) {
    report_.outcome = Outcome::cancelled;
  } else {
    report_.outcome = outcome_of_failure(report_);
  }
  log_phases();
}

ChunkStep LiveAccount::step_of(const LiveChunk& chunk, ChunkStep::Kind kind) const {
  ChunkStep step;
  step.kind = kind;
  step.begin = chunk.begun.value_or(TimePoint(0));
  step.end = clock_.now();
  step.address = allocation_.slot_begin(chunk.transaction.slot());
  step.bytes = chunk.transaction.size_bytes();
  step.from = chunk.transaction.from();
  step.to = task_.to;
  step.stall = chunk.stall;
  step.stop = report_.stop;
  step.switched = chunk.transaction.switched_at();
  step.operation = task_.terms.operation;
  step.by_policy = task_.terms.by_policy;
  return step;
}

/// If the host is out of memory, a reason is less important than the move.
void LiveAccount::count(std::string_view reason) noexcept {
  try {
    ++report_.reasons[std::string(reason)];
  } catch (const std::bad_alloc&) {  // Not counted.
  }
}

/// Helps to explain why moves take as long as they do.
void LiveAccount::log_phases() const {
  const auto us = [](std::chrono::nanoseconds time) { return in_seconds(time) * 1e6; };
  const Phases& phases = report_.phases;
  log(LogLevel::debug,
      "{}: {} chunks, {} of them live, {} retries; us: cache {:.0f}, wait {:.0f}, copy {:.0f}, "
      "settle {:.0f}, unmap {:.0f}, map {:.0f}, grant {:.0f}, retire {:.0f}; longest stall {:.0f}",
      report_.route, report_.chunks_moved, report_.chunks_live, report_.retries, us(phases.cache),
      us(phases.wait), us(phases.copy), us(phases.settle), us(phases.unmap), us(phases.map),
      us(phases.grant), us(phases.retire), us(report_.stall.max));
  for (const auto& [reason, count] : report_.reasons)
    log(LogLevel::debug, "{}: {} times {}", report_.route, count, reason);
}

}  // namespace vma
