// What a live move reports of its chunks to watchers.
#include "migrate/moves/live_move.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace vma {

ChunkStep LiveMove::step_of(const LiveChunk& chunk, ChunkStep::Kind kind) const {
  ChunkStep step;
  step.kind = kind;
  step.begin = chunk.begun.value_or(TimePoint(0));
  step.end = clock_.now();
  step.address = allocation_.slot_begin(chunk.transaction.slot());
  step.bytes = chunk.transaction.size_bytes();
  step.from = chunk.transaction.from();
  step.to = task_.to;
  step.stall = chunk.stall;
  step.switched = chunk.transaction.switched_at();
  step.operation = task_.terms.operation;
  step.by_policy = task_.terms.by_policy;
  return step;
}

void LiveMove::tell_begun(LiveChunk& chunk) noexcept {
  if (chunk.begun) return;  // A second try of it.
  chunk.begun = clock_.now();
  parts_.observers.tell(step_of(chunk, ChunkStep::Kind::begun));
}

void LiveMove::tell_stood(LiveChunk& chunk, const GateTimes& times, std::size_t streams) noexcept {
  chunk.stall += times.stall();
  ChunkStep step = step_of(chunk, ChunkStep::Kind::stood);
  step.begin = times.last_arrival;
  step.end = times.opened;
  step.skew = times.skew();
  step.streams = static_cast<std::uint32_t>(streams);
  parts_.observers.tell(step);
}

/// Once for each chunk that was begun; after a chunk has moved, later calls report nothing.
void LiveMove::tell_ended(LiveChunk& chunk, bool moved) noexcept {
  if (!chunk.begun || std::exchange(chunk.ended, true)) return;
  ChunkStep step = step_of(chunk, moved ? ChunkStep::Kind::moved : ChunkStep::Kind::stayed);
  if (!moved) {
    const std::size_t offset = chunk.transaction.slot() * allocation_.geometry().chunk_bytes;
    const auto failure = std::ranges::find(report_.failures, offset, &ChunkFailure::offset);
    try {
      step.why =
          failure == report_.failures.end() ? "the migration has already ended" : failure->reason;
    } catch (const std::bad_alloc&) {  // Reported without its reason.
    }
  }
  parts_.observers.tell(step);
}

}  // namespace vma
