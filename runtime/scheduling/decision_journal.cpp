#include "scheduling/decision_journal.hpp"

#include <vector>

namespace vma {

Decision DecisionJournal::about(DecisionKind kind, ChunkId chunk) const {
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

Decision DecisionJournal::about(DecisionKind kind, const AcceptedMove& move) const {
  Decision decision = about(kind, move.chunk);
  decision.from = roster_.location_of(move.from);
  decision.to = roster_.location_of(move.to);
  return decision;
}

std::uint64_t DecisionJournal::add(Decision decision) {
  decision.time = path_.books().now();
  decision.policy = policy_;
  log_.add(decision);
  if (recording_ != nullptr) recording_->add(decision);
  if (listener_) listener_(decision);
  return decision.sequence;
}

void DecisionJournal::add(DecisionKind kind, const std::string& reason) {
  Decision decision;
  decision.kind = kind;
  decision.reason = reason;
  add(std::move(decision));
}

void DecisionJournal::record_step(const ChunkStep& step) {
  const ChunkRoster::Entry* entry = roster_.around(step.address);
  if (recording_ == nullptr || entry == nullptr) return;
  if (step.kind == ChunkStep::Kind::stood) {
    recording_->add(
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
  recording_->add(record);
}

void DecisionJournal::record_move(RecordedMove move, ChunkId chunk) noexcept {
  if (recording_ == nullptr) return;
  const ChunkRow& row = path_.snapshot().chunk(chunk);
  move.allocation = row.allocation;
  move.slot = row.slot;
  recording_->add(move);
}

void DecisionJournal::record_allocation(const ChunkRoster::Entry& entry) {
  if (recording_ == nullptr) return;
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
      recording_->add(record);
      record.first_slot = static_cast<std::uint32_t>(slot);
      record.places.clear();
    }
    record.places.push_back({at, 1});
  }
  recording_->add(record);
}

void DecisionJournal::record_free(const ChunkRoster::Entry& entry) {
  if (recording_ != nullptr) recording_->add(RecordedFree{path_.books().now(), entry.number});
}

void DecisionJournal::record_uses(std::span<const LoggedUse> uses) {
  if (recording_ == nullptr) return;
  std::vector<RecordedUse> records;
  for (const LoggedUse& use : uses) {
    const ChunkRoster::Entry* entry = roster_.around(use.address);
    if (entry == nullptr) continue;
    const std::uint64_t offset = use.address - entry->begin;
    if (path_.snapshot().chunk(entry->chunk_at(offset)).dropped) continue;
    records.push_back({use.at, entry->number, offset, use.bytes, use.passes, use.weight,
                       roster_.place_of(gpu(index(use.device))), use.kind});
  }
  recording_->add(records);
}

void DecisionJournal::record_hint(const AdvisedRange& range, const ChunkRoster::Entry& entry) {
  if (recording_ == nullptr) return;
  recording_->add(
      RecordedHint{range.at, entry.number, range.address - entry.begin, range.bytes, range.hint});
}

void DecisionJournal::flush() {
  log_.flush(path_.books().now());
  if (recording_ != nullptr) recording_->flush(path_.books().now());
}

}  // namespace vma
