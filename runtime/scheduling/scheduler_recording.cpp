// What the scheduler tells its decision log, and its recording besides uses and its own moves.
#include "scheduling/scheduler.hpp"

#include <vector>

namespace vma {

/// Returns its number.
std::uint64_t Scheduler::decide(Decision decision) {
  decision.time = path_.books().now();
  decision.policy = policy_;
  ground_.decisions.add(decision);
  if (ground_.recording != nullptr) ground_.recording->add(decision);
  if (ground_.decided) ground_.decided(decision);
  return decision.sequence;
}

Decision Scheduler::decision_of(DecisionKind kind, ChunkId chunk) const {
  Decision decision;
  decision.kind = kind;
  const Snapshot snapshot = path_.snapshot();
  if (index(chunk) >= snapshot.chunks().size()) return decision;
  const ChunkRow& row = snapshot.chunk(chunk);
  const ChunkRoster::Entry* entry = roster_.of(row);
  if (entry == nullptr) return decision;
  decision.chunk = DecidedChunk{row.allocation, to_integer(entry->begin), row.slot, row.bytes,
                                std::string(snapshot.tag(chunk))};
  return decision;
}

/// What has moved otherwise than by a decision is recorded chunk by chunk, with the time at which
/// its slot was switched: uses have the times of their launches, and not that of this look.
void Scheduler::record_step(const ChunkStep& step) {
  const ChunkRoster::Entry* entry = roster_.around(step.address);
  if (ground_.recording == nullptr || entry == nullptr) return;
  if (step.kind == ChunkStep::Kind::stood) {
    ground_.recording->add(
        RecordedStall{step.begin, step.end - step.begin, step.skew, entry->number, step.streams});
    return;
  }
  RecordedMove record;
  record.slot = static_cast<std::uint32_t>((step.address - entry->begin) / entry->chunk_bytes);
  const Snapshot snapshot = path_.snapshot();
  const Time recorded = snapshot.chunks()[index(entry->first) + record.slot].born;
  if (step.from == step.to || step.switched <= recorded)
    return;  // As the allocation's record has it.
  record.start = step.begin;
  record.end = step.switched;
  record.stall = step.stall;
  record.allocation = entry->number;
  record.bytes = step.bytes;
  record.from = roster_.place_of(step.from);
  record.to = roster_.place_of(step.to);
  record.moved = true;
  ground_.recording->add(record);
}

void Scheduler::record_allocation(const ChunkRoster::Entry& entry) {
  if (ground_.recording == nullptr) return;
  const Snapshot snapshot = path_.snapshot();
  RecordedAllocation record;
  record.time = path_.books().now();
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
