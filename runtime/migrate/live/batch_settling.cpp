#include "migrate/live/batch_settling.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

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

}  // namespace vma
