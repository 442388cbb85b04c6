#include "memory/chunk_cache.hpp"

#include "base/check.hpp"

namespace vma {

ChunkCache::ChunkCache(Ledger& ledger, std::uint64_t gpu_budget_bytes,
                       std::uint64_t host_budget_bytes)
    : ledger_(ledger), gpu_budget_bytes_(gpu_budget_bytes), host_budget_bytes_(host_budget_bytes) {}

std::uint64_t ChunkCache::base_budget(Location at) const {
  return at.kind == Location::Kind::gpu ? gpu_budget_bytes_ : host_budget_bytes_;
}

Chunk ChunkCache::take(Location at, std::uint64_t size_bytes) {
  const MutexLock lock(mutex_);
  Shelf& shelf = shelves_[at];
  const auto class_of_size = shelf.chunks.find(size_bytes);
  if (class_of_size == shelf.chunks.end()) return Chunk();
  Chunk chunk = std::move(class_of_size->second.back());  // The youngest: its mapping is warmest.
  class_of_size->second.pop_back();
  if (class_of_size->second.empty()) shelf.chunks.erase(class_of_size);
  shelf.cached_bytes -= size_bytes;
  ledger_.shift(at, size_bytes, Ledger::Use::cached, Ledger::Use::allocated);
  return chunk;
}

void ChunkCache::put(Chunk chunk) {
  VMART_CHECK(static_cast<bool>(chunk), "only a chunk is kept");
  const MutexLock lock(mutex_);
  const Location at = chunk.at();
  const std::uint64_t size_bytes = chunk.size_bytes();
  Shelf& shelf = shelves_[at];
  shelf.chunks[size_bytes].push_back(std::move(chunk));
  shelf.cached_bytes += size_bytes;
  ledger_.shift(at, size_bytes, Ledger::Use::allocated, Ledger::Use::cached);
}

std::shared_ptr<Allocation> ChunkCache::take_front(Location at, Shelf& shelf,
                                                   const Geometry& geometry) {
  const auto same = shelf.allocations.find(geometry);
  std::shared_ptr<Allocation> allocation = std::move(same->second.front());
  same->second.pop_front();
  if (same->second.empty()) shelf.allocations.erase(same);
  shelf.cached_bytes -= geometry.size_bytes();
  ledger_.shift(at, geometry.size_bytes(), Ledger::Use::cached, Ledger::Use::allocated);
  return allocation;
}

std::shared_ptr<Allocation> ChunkCache::take_allocation(Location at, const Geometry& geometry) {
  const MutexLock lock(mutex_);
  Shelf& shelf = shelves_[at];
  if (!shelf.allocations.contains(geometry)) return nullptr;
  return take_front(at, shelf, geometry);
}

std::shared_ptr<Allocation> ChunkCache::take_allocation_with(Location at,
                                                             std::uint64_t slot_bytes) {
  const MutexLock lock(mutex_);
  Shelf& shelf = shelves_[at];
  for (const auto& [geometry, allocations] : shelf.allocations) {
    const bool has_whole_slot = geometry.slots > 1 && geometry.chunk_bytes == slot_bytes;
    if (has_whole_slot || geometry.tail_bytes == slot_bytes) {
      return take_front(at, shelf, Geometry(geometry));
    }
  }
  return nullptr;
}

void ChunkCache::put_allocation(Location at, std::shared_ptr<Allocation> allocation) {
  const MutexLock lock(mutex_);
  Shelf& shelf = shelves_[at];
  const Geometry geometry = allocation->geometry();
  shelf.allocations[geometry].push_back(std::move(allocation));
  shelf.cached_bytes += geometry.size_bytes();
  ledger_.shift(at, geometry.size_bytes(), Ledger::Use::allocated, Ledger::Use::cached);
}

void ChunkCache::move_down(Location at, Shelf& shelf, std::uint64_t limit_bytes, Surplus& surplus) {
  const auto over = [&] { return shelf.cached_bytes > limit_bytes; };
  while (over() && !shelf.allocations.empty()) {
    const Geometry largest = shelf.allocations.rbegin()->first;
    surplus.allocations.push_back(take_front(at, shelf, largest));
    surplus.size_bytes += largest.size_bytes();
  }
  while (over() && !shelf.chunks.empty()) {
    const auto largest = std::prev(shelf.chunks.end());
    const std::uint64_t size_bytes = largest->first;
    surplus.chunks.push_back(std::move(largest->second.front()));
    largest->second.pop_front();
    if (largest->second.empty()) shelf.chunks.erase(largest);
    surplus.size_bytes += size_bytes;
    shelf.cached_bytes -= size_bytes;
    ledger_.shift(at, size_bytes, Ledger::Use::cached, Ledger::Use::allocated);
  }
}

ChunkCache::Surplus ChunkCache::take_surplus(Location at) {
  Surplus surplus;
  const MutexLock lock(mutex_);
  Shelf& shelf = shelves_[at];
  move_down(at, shelf, base_budget(at) + shelf.raised_bytes, surplus);
  return surplus;
}

ChunkCache::Surplus ChunkCache::take_all(Location at) {
  Surplus surplus;
  const MutexLock lock(mutex_);
  Shelf& shelf = shelves_[at];
  shelf.raised_bytes = 0;
  move_down(at, shelf, 0, surplus);
  return surplus;
}

void ChunkCache::raise_budget(Location at, std::uint64_t size_bytes) {
  const MutexLock lock(mutex_);
  shelves_[at].raised_bytes += size_bytes;
}

std::uint64_t ChunkCache::budget_bytes(Location at) const {
  const MutexLock lock(mutex_);
  const auto shelf = shelves_.find(at);
  return base_budget(at) + (shelf == shelves_.end() ? 0 : shelf->second.raised_bytes);
}

std::uint64_t ChunkCache::cached_bytes(Location at) const {
  const MutexLock lock(mutex_);
  const auto shelf = shelves_.find(at);
  return shelf == shelves_.end() ? 0 : shelf->second.cached_bytes;
}

std::size_t ChunkCache::count(Location at, std::uint64_t size_bytes) const {
  const MutexLock lock(mutex_);
  const auto shelf = shelves_.find(at);
  if (shelf == shelves_.end()) return 0;
  const auto class_of_size = shelf->second.chunks.find(size_bytes);
  return class_of_size == shelf->second.chunks.end() ? 0 : class_of_size->second.size();
}

}  // namespace vma
