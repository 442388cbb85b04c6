// What the scheduler records besides uses, decisions and its own moves.
#include "service/scheduler.hpp"

#include <vector>

namespace vma {

/// What has moved otherwise than by a decision is recorded here. Uses are recorded with the times
/// of their launches, so a move has to have its own, too, and not that of this look.
void Scheduler::refresh(const ChunkRoster::Entry& entry, Time changed) {
  const Snapshot snapshot(*tables_);
  const auto chunk = [&](std::size_t slot) {
    return ChunkId{static_cast<std::uint32_t>(index(entry.first) + slot)};
  };
  std::vector<PlaceId> before;
  for (std::size_t slot = 0; ground_.recording != nullptr && slot < entry.slots; ++slot)
    before.push_back(snapshot.chunk(chunk(slot)).at);
  roster_.refresh(entry, *tables_);
  for (std::size_t slot = 0; slot < before.size(); ++slot) {
    const ChunkRow& row = snapshot.chunk(chunk(slot));
    if (row.at == before[slot] || planner_.is_moving(chunk(slot))) continue;
    RecordedMove record;
    record.start = record.end = changed;
    record.allocation = entry.number;
    record.bytes = row.bytes;
    record.slot = static_cast<std::uint32_t>(slot);
    record.from = before[slot];
    record.to = row.at;
    record.moved = true;
    ground_.recording->add(record);
  }
}

void Scheduler::record_stalls() {
  if (ground_.recording == nullptr) return;
  for (const ChunkStep& step : inbox_->take_stood()) {
    const ChunkRoster::Entry* entry = roster_.around(step.address);
    if (entry == nullptr) continue;  // Made and moved since the last look, or gone.
    ground_.recording->add(
        RecordedStall{step.begin, step.end - step.begin, step.skew, entry->number, step.streams});
  }
}

void Scheduler::record_allocation(const ChunkRoster::Entry& entry) {
  if (ground_.recording == nullptr) return;
  const Snapshot snapshot(*tables_);
  RecordedAllocation record;
  record.time = tables_->now();
  record.allocation = entry.number;
  record.begin = to_integer(entry.begin);
  record.bytes = entry.size_bytes;
  record.chunk_bytes = entry.chunk_bytes;
  record.tag = snapshot.tag(entry.first);
  for (std::size_t slot = 0; slot < entry.slots; ++slot) {
    const PlaceId at = snapshot.chunks()[index(entry.first) + slot].at;
    if (!record.places.empty() && record.places.back().at == at) {
      ++record.places.back().chunks;
      continue;
    }
    if (record.places.size() == place_runs_max) {
      ground_.recording->add(record);
      record.first_slot = static_cast<std::uint32_t>(slot);
      record.places.clear();
    }
    record.places.push_back({at, 1});
  }
  ground_.recording->add(record);
}

}  // namespace vma
