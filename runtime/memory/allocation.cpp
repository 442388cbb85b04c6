#include "memory/allocation.hpp"

#include "base/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace vma {

Allocation::Allocation(Driver& driver, Ledger& ledger, Reservation reservation,
                       const Geometry& geometry)
    : driver_(driver), ledger_(ledger), reservation_(std::move(reservation)), geometry_(geometry) {
  VMART_CHECK(geometry.slots > 0 && geometry.tail_bytes <= geometry.chunk_bytes,
              "an allocation has a slot, and its tail is no longer than the others");
  VMART_CHECK(reservation_.size_bytes() == geometry.size_bytes(), "the reservation is the slots'");
  slots_.resize(geometry.slots);
}

Allocation::~Allocation() {
  take_apart();
}

void Allocation::show_all(std::vector<Chunk>& chunks, std::span<const Accessor> readers) {
  VMART_CHECK(chunks.size() == slots_.size(), "one chunk a slot");
  std::size_t mapped = 0;
  try {
    for (; mapped < slots_.size(); ++mapped) {
      const std::uint64_t bytes = geometry_.slot_bytes(mapped);
      VMART_CHECK(chunks[mapped].size_bytes() == bytes,
                  "a chunk maps whole, so it has the slot's size");
      driver_.map(slot_begin(mapped), bytes, chunks[mapped].handle());
    }
    driver_.grant(begin(), size_bytes(), readers);
  } catch (...) {
    // Through the slots, so that one that cannot be unmapped is counted and kept out of the cache.
    for (std::size_t slot = 0; slot < mapped; ++slot) {
      slots_[slot].chunk = std::move(chunks[slot]);
      slots_[slot].mapped = true;
    }
    std::vector<Chunk> back = take_apart();
    for (std::size_t slot = mapped; slot < chunks.size(); ++slot)
      back.push_back(std::move(chunks[slot]));
    chunks = std::move(back);
    throw;
  }
  const MutexLock lock(slots_mutex_);
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    slots_[slot].chunk = std::move(chunks[slot]);
    slots_[slot].mapped = true;
  }
  chunks.clear();
}

std::vector<Chunk> Allocation::take_apart() noexcept {
  std::vector<Chunk> chunks;
  const MutexLock lock(slots_mutex_);
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    Slot& shown = slots_[slot];
    if (shown.mapped) {
      try {
        driver_.unmap(slot_begin(slot), geometry_.slot_bytes(slot));
        shown.mapped = false;
      } catch (const std::exception& error) {
        reservation_.abandon(error.what());
        if (shown.chunk)
          ledger_.unclaim(shown.chunk.at(), shown.chunk.size_bytes(), Ledger::Use::allocated);
        shown.chunk = Chunk();  // Its memory lives on behind the mapping; nobody may use it again.
        shown.mapped = false;
        continue;
      }
    }
    if (shown.chunk) chunks.push_back(std::move(shown.chunk));
  }
  return chunks;
}

std::vector<Chunk> Allocation::close() noexcept {
  std::vector<Chunk> chunks = take_apart();
  reservation_ = Reservation();
  return chunks;
}

Location Allocation::home(std::size_t slot) const {
  const MutexLock lock(slots_mutex_);
  return slots_[slot].chunk.at();
}

std::uint64_t Allocation::generation(std::size_t slot) const {
  const MutexLock lock(slots_mutex_);
  return slots_[slot].generation;
}

Chunk Allocation::replace(std::size_t slot, Chunk target) {
  const MutexLock lock(slots_mutex_);
  Slot& shown = slots_[slot];
  VMART_CHECK(shown.mapped && target.size_bytes() == shown.chunk.size_bytes(),
              "a chunk takes the place of one of its size");
  ++shown.generation;
  return std::exchange(shown.chunk, std::move(target));
}

void Allocation::poison(std::size_t slot, bool still_mapped) {
  const MutexLock lock(slots_mutex_);
  slots_[slot].mapped = still_mapped;
  poisoned_ = true;
}

std::vector<Extent> Allocation::extents() const {
  std::vector<Extent> extents;
  const MutexLock lock(slots_mutex_);
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    const std::size_t bytes = geometry_.slot_bytes(slot);
    const Location at = slots_[slot].chunk.at();
    if (!extents.empty() && extents.back().at == at) {
      extents.back().bytes += bytes;
      extents.back().generation = std::max(extents.back().generation, slots_[slot].generation);
    } else {
      extents.push_back({slot * geometry_.chunk_bytes, bytes, at, slots_[slot].generation});
    }
  }
  return extents;
}

bool Allocation::at_one_place() const {
  const MutexLock lock(slots_mutex_);
  return std::ranges::all_of(slots_, [&](const Slot& slot) {
    return slot.chunk && slot.mapped && slot.chunk.at() == slots_.front().chunk.at();
  });
}

}  // namespace vma
