#include "memory/chunk_cache.hpp"

#include "base/check.hpp"
#include "base/vectors.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace vma {
namespace {

/// Throws: std::bad_alloc; then nothing has changed.
template <typename Rows, typename Key, typename Value>
void append(Rows& rows, const Key& key, Value&& value) {
  const auto row = rows.try_emplace(key).first;
  try {
    row->second.push_back(std::forward<Value>(value));
  } catch (...) {
    if (row->second.empty()) rows.erase(row);
    throw;
  }
}

/// Whether one more element can be added without throwing.
template <typename Value>
bool make_space(std::vector<Value>& values) noexcept {
  try {
    make_room(values, values.size() + 1);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

ChunkCache::ChunkCache(Ledger& ledger, std::uint64_t gpu_budget_bytes,
                       std::uint64_t host_budget_bytes)
    : ledger_(ledger), gpu_budget_bytes_(gpu_budget_bytes), host_budget_bytes_(host_budget_bytes) {}

std::uint64_t ChunkCache::base_budget(Place at) const {
  return at.kind == Place::Kind::gpu ? gpu_budget_bytes_ : host_budget_bytes_;
}

std::uint64_t ChunkCache::budget(Place at, const Shelf& shelf) const {
  return base_budget(at) + shelf.reserved_bytes;
}

Chunk ChunkCache::take(Place at, std::uint64_t size_bytes, const ExportTypes& types) {
  const MutexLock lock(mutex_);
  Shelf& shelf = shelves_[at];
  const auto class_of_size = shelf.chunks.find(size_bytes);
  if (class_of_size == shelf.chunks.end()) return Chunk();
  std::deque<Chunk>& chunks = class_of_size->second;
  const auto suits = [&](const Chunk& chunk) { return chunk.types().includes(types); };
  // The youngest: its mapping is warmest.
  const auto youngest = std::find_if(chunks.rbegin(), chunks.rend(), suits);
  if (youngest == chunks.rend()) return Chunk();
  Chunk chunk = std::move(*youngest);
  chunks.erase(std::next(youngest).base());
  if (chunks.empty()) shelf.chunks.erase(class_of_size);
  shelf.cached_bytes -= size_bytes;
  ledger_.shift(at, size_bytes, Ledger::Use::cached, Ledger::Use::allocated);
  return chunk;
}

bool ChunkCache::put(Chunk&& chunk) noexcept {
  VMART_CHECK(static_cast<bool>(chunk) && !chunk.busy(), "only an idle chunk is kept");
  const Place at = chunk.at();
  const std::uint64_t size_bytes = chunk.size_bytes();
  const MutexLock lock(mutex_);
  try {
    Shelf& shelf = shelves_[at];
    append(shelf.chunks, size_bytes, std::move(chunk));
    shelf.cached_bytes += size_bytes;
  } catch (const std::exception&) {
    return false;
  }
  ledger_.shift(at, size_bytes, Ledger::Use::allocated, Ledger::Use::cached);
  return true;
}

std::shared_ptr<Allocation> ChunkCache::take_oldest(Place at, Shelf& shelf,
                                                    const Geometry& geometry,
                                                    const ExportTypes& types) {
  const auto same = shelf.allocations.find(geometry);
  if (same == shelf.allocations.end()) return nullptr;
  const auto suits = [&](const auto& allocation) { return allocation->created_with(types); };
  const auto oldest = std::ranges::find_if(same->second, suits);
  if (oldest == same->second.end()) return nullptr;
  std::shared_ptr<Allocation> allocation = std::move(*oldest);
  same->second.erase(oldest);
  if (same->second.empty()) shelf.allocations.erase(same);
  shelf.cached_bytes -= geometry.size_bytes();
  ledger_.shift(at, geometry.size_bytes(), Ledger::Use::cached, Ledger::Use::allocated);
  return allocation;
}

std::shared_ptr<Allocation> ChunkCache::take_allocation(Place at, const Geometry& geometry,
                                                        const ExportTypes& types) {
  const MutexLock lock(mutex_);
  return take_oldest(at, shelves_[at], geometry, types);
}

std::shared_ptr<Allocation> ChunkCache::take_allocation_with(Place at, std::uint64_t slot_bytes,
                                                             const ExportTypes& types) {
  const MutexLock lock(mutex_);
  Shelf& shelf = shelves_[at];
  for (const auto& [geometry, allocations] : shelf.allocations) {
    const bool has_whole_slot = geometry.slots > 1 && geometry.chunk_bytes == slot_bytes;
    if (!has_whole_slot && geometry.tail_bytes != slot_bytes) continue;
    if (auto allocation = take_oldest(at, shelf, Geometry(geometry), types)) return allocation;
  }
  return nullptr;
}

bool ChunkCache::put_allocation(Place at, const std::shared_ptr<Allocation>& allocation) noexcept {
  const Geometry& geometry = allocation->geometry();
  const MutexLock lock(mutex_);
  try {
    Shelf& shelf = shelves_[at];
    append(shelf.allocations, geometry, allocation);
    shelf.cached_bytes += geometry.size_bytes();
  } catch (const std::exception&) {
    return false;
  }
  ledger_.shift(at, geometry.size_bytes(), Ledger::Use::allocated, Ledger::Use::cached);
  return true;
}

void ChunkCache::move_down(Place at, Shelf& shelf, std::uint64_t limit_bytes, Surplus& surplus) {
  while (shelf.cached_bytes > limit_bytes && !shelf.allocations.empty()) {
    if (!make_space(surplus.allocations)) return;
    const Geometry largest = shelf.allocations.rbegin()->first;
    surplus.allocations.push_back(take_oldest(at, shelf, largest, {}));
    surplus.size_bytes += largest.size_bytes();
  }
  while (shelf.cached_bytes > limit_bytes && !shelf.chunks.empty()) {
    const std::uint64_t largest = shelf.chunks.rbegin()->first;
    if (!move_down_chunks(at, shelf, largest, limit_bytes, surplus)) return;
  }
}

bool ChunkCache::move_down_chunks(Place at, Shelf& shelf, std::uint64_t size_bytes,
                                  std::uint64_t limit_bytes, Surplus& surplus) {
  const auto row = shelf.chunks.find(size_bytes);
  while (shelf.cached_bytes > limit_bytes && !row->second.empty()) {
    if (!make_space(surplus.chunks)) return false;
    surplus.chunks.push_back(std::move(row->second.front()));
    row->second.pop_front();
    surplus.size_bytes += size_bytes;
    shelf.cached_bytes -= size_bytes;
    ledger_.shift(at, size_bytes, Ledger::Use::cached, Ledger::Use::allocated);
  }
  if (row->second.empty()) shelf.chunks.erase(row);
  return true;
}

bool ChunkCache::over_budget(Place at) const {
  const MutexLock lock(mutex_);
  const auto shelf = shelves_.find(at);
  return shelf != shelves_.end() && shelf->second.cached_bytes > budget(at, shelf->second);
}

ChunkCache::Surplus ChunkCache::take_surplus(Place at) noexcept {
  Surplus surplus;
  const MutexLock lock(mutex_);
  const auto shelf = shelves_.find(at);
  if (shelf != shelves_.end()) {
    move_down(at, shelf->second, budget(at, shelf->second), surplus);
  }
  return surplus;
}

ChunkCache::Surplus ChunkCache::take_all(Place at) noexcept {
  Surplus surplus;
  const MutexLock lock(mutex_);
  const auto shelf = shelves_.find(at);
  if (shelf == shelves_.end()) return surplus;
  ++shelf->second.times_emptied;
  shelf->second.reserved.clear();
  shelf->second.reserved_bytes = 0;
  move_down(at, shelf->second, 0, surplus);
  return surplus;
}

ChunkCache::Surplus ChunkCache::take_others(Place at, std::uint64_t size_bytes) noexcept {
  Surplus surplus;
  const MutexLock lock(mutex_);
  const auto found = shelves_.find(at);
  if (found == shelves_.end()) return surplus;
  Shelf& shelf = found->second;
  while (!shelf.allocations.empty() && make_space(surplus.allocations)) {
    const Geometry geometry = shelf.allocations.begin()->first;
    surplus.allocations.push_back(take_oldest(at, shelf, geometry, {}));
    surplus.size_bytes += geometry.size_bytes();
  }
  for (auto row = shelf.chunks.begin(); row != shelf.chunks.end();) {
    const std::uint64_t row_bytes = (row++)->first;
    if (row_bytes != size_bytes && !move_down_chunks(at, shelf, row_bytes, 0, surplus)) break;
  }
  return surplus;
}

ChunkCache::Surplus ChunkCache::take_room(Place at, std::uint64_t size_bytes) noexcept {
  Surplus surplus;
  const MutexLock lock(mutex_);
  const auto found = shelves_.find(at);
  if (found == shelves_.end()) return surplus;
  Shelf& shelf = found->second;
  const auto row = shelf.chunks.lower_bound(size_bytes);
  if (row == shelf.chunks.end()) {
    move_down(at, shelf, shelf.cached_bytes - std::min(shelf.cached_bytes, size_bytes), surplus);
  } else {
    move_down_chunks(at, shelf, row->first, shelf.cached_bytes - row->first, surplus);
  }
  return surplus;
}

void ChunkCache::reserve_budget(Place at, std::uint64_t size_bytes, std::uint64_t count) {
  const MutexLock lock(mutex_);
  Shelf& shelf = shelves_[at];
  std::uint64_t& reserved = shelf.reserved[size_bytes];
  if (count <= reserved) return;
  shelf.reserved_bytes += (count - reserved) * size_bytes;
  reserved = count;
}

std::uint64_t ChunkCache::budget_bytes(Place at) const {
  const MutexLock lock(mutex_);
  const auto shelf = shelves_.find(at);
  return shelf == shelves_.end() ? base_budget(at) : budget(at, shelf->second);
}

std::uint64_t ChunkCache::cached_bytes(Place at) const {
  const MutexLock lock(mutex_);
  const auto shelf = shelves_.find(at);
  return shelf == shelves_.end() ? 0 : shelf->second.cached_bytes;
}

std::size_t ChunkCache::count(Place at, std::uint64_t size_bytes) const {
  const MutexLock lock(mutex_);
  const auto shelf = shelves_.find(at);
  if (shelf == shelves_.end()) return 0;
  const auto class_of_size = shelf->second.chunks.find(size_bytes);
  return class_of_size == shelf->second.chunks.end() ? 0 : class_of_size->second.size();
}

std::size_t ChunkCache::count_with_slots(Place at, std::uint64_t size_bytes) const {
  std::size_t count = this->count(at, size_bytes);
  const MutexLock lock(mutex_);
  const auto shelf = shelves_.find(at);
  if (shelf == shelves_.end()) return count;
  for (const auto& [geometry, allocations] : shelf->second.allocations) {
    const std::size_t whole = geometry.chunk_bytes == size_bytes ? geometry.slots - 1 : 0;
    const std::size_t tail = geometry.tail_bytes == size_bytes ? 1 : 0;
    count += (whole + tail) * allocations.size();
  }
  return count;
}

std::uint64_t ChunkCache::times_emptied(Place at) {
  const MutexLock lock(mutex_);
  return shelves_[at].times_emptied;  // From here on it is counted, also of an empty shelf.
}

}  // namespace vma
