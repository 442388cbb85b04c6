#include "scheduling/chunk_roster.hpp"

#include <iterator>

namespace vma {

ChunkRoster::ChunkRoster(const Topology& topology, Migrator& migrator)
    : topology_(topology), migrator_(migrator), reach_(migrator.reach()) {
  for (std::size_t i = 0; i < topology.places().size(); ++i) {
    places_.emplace(topology.places()[i], PlaceId{static_cast<std::uint8_t>(i)});
  }
}

const ChunkRoster::Entry* ChunkRoster::add(const std::shared_ptr<Allocation>& allocation,
                                           ChunkTables& tables) {
  if (allocation->being_freed || entries_.contains(allocation->begin())) return nullptr;
  const Geometry& geometry = allocation->geometry();
  std::vector<ChunkTables::NewChunk> chunks(geometry.slots);
  for (std::size_t slot = 0; slot < geometry.slots; ++slot) {
    chunks[slot] = {geometry.slot_bytes(slot), place_of(allocation->place(slot))};
  }
  Entry entry{allocation,     allocation->begin(), geometry.size_bytes(), geometry.chunk_bytes,
              ++last_number_, ChunkId{},           geometry.slots};
  const auto added = entries_.emplace(entry.begin, std::move(entry)).first;
  try {
    begins_.emplace(added->second.number, added->first);
    added->second.first = tables.add(added->second.number, allocation->tag, chunks);
  } catch (...) {
    begins_.erase(added->second.number);
    entries_.erase(added);
    throw;
  }
  refresh(added->second, tables);
  return &added->second;
}

ChunkRoster::Entry ChunkRoster::remove(Address begin) {
  const auto found = entries_.find(begin);
  if (found == entries_.end()) return {};
  Entry entry = std::move(found->second);
  entries_.erase(found);
  begins_.erase(entry.number);
  return entry;
}

const ChunkRoster::Entry* ChunkRoster::find(Address begin) const {
  const auto found = entries_.find(begin);
  return found == entries_.end() ? nullptr : &found->second;
}

const ChunkRoster::Entry* ChunkRoster::around(Address address) const {
  auto after = entries_.upper_bound(address);
  if (after == entries_.begin()) return nullptr;
  const Entry& entry = std::prev(after)->second;
  return address - entry.begin < entry.size_bytes ? &entry : nullptr;
}

const ChunkRoster::Entry* ChunkRoster::of(const ChunkRow& row) const {
  const auto found = begins_.find(row.allocation);
  return found == begins_.end() ? nullptr : find(found->second);
}

void ChunkRoster::refresh(const Entry& entry, ChunkTables& tables) const {
  const std::shared_ptr<Allocation> allocation = entry.allocation.lock();
  if (!allocation || allocation->being_freed) return;  // Its `freed` event will follow.
  const bool movable = allocation->may_move() && !allocation->poisoned();
  const bool in_scope = migrator_.may_stop_for(entry.begin);
  for (std::size_t slot = 0; slot < entry.slots; ++slot) {
    const ChunkId chunk{static_cast<std::uint32_t>(index(entry.first) + slot)};
    ChunkRow& row = tables.row(chunk);
    if (row.movable != movable || row.in_scope != in_scope) {
      row.movable = movable;
      row.in_scope = in_scope;
      tables.touch(chunk);
    }
    tables.set_dropped(chunk, allocation->dropped(slot));
    const PlaceId at = place_of(allocation->place(slot));
    if (at != row.at) tables.moved(chunk, at);
  }
  if (reach_.limits(*allocation)) refresh_reach(entry, *allocation, tables);
}

/// Computed once for all slots that the program wants at one place.
void ChunkRoster::refresh_reach(const Entry& entry, const Allocation& allocation,
                                ChunkTables& tables) const {
  std::map<Place, std::uint32_t> by_wanted;
  for (std::size_t slot = 0; slot < entry.slots; ++slot) {
    const auto [known, made] = by_wanted.try_emplace(allocation.wanted(slot), 0);
    if (made) {
      const std::vector<DeviceId> users = reach_.users(allocation, slot);
      std::vector<bool> reached;
      for (const Place at : topology_.places())
        reached.push_back(reach_.suits(users, at, allocation.shared_atomics));
      known->second = tables.reach_number(reached);
    }
    const ChunkId chunk{static_cast<std::uint32_t>(index(entry.first) + slot)};
    tables.set_reach(chunk, known->second);
  }
}

void ChunkRoster::refresh_all(ChunkTables& tables) const {
  for (const auto& [begin, entry] : entries_) refresh(entry, tables);
}

}  // namespace vma
