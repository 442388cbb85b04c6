#include "memory/registry.hpp"

#include "base/check.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

namespace vma {
namespace {

/// Zero pages that take memory only once written.
void* map_lazily(std::size_t size_bytes) {
  void* pages = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  return pages;
}

}  // namespace

Registry::Registry(std::uint64_t granule_bytes)
    : granule_shift_(std::countr_zero(granule_bytes)),
      leaf_count_(std::uint64_t{1} << (address_bits - granule_shift_ - leaf_bits)) {
  VMART_CHECK(std::has_single_bit(granule_bytes), "granules are found by shifting");
  leaves_ = static_cast<std::atomic<Leaf*>*>(map_lazily(leaf_count_ * sizeof(*leaves_)));
}

Registry::~Registry() {
  for (Leaf* entries : leaves_made_) munmap(entries, sizeof(Leaf) << leaf_bits);
  munmap(leaves_, leaf_count_ * sizeof(*leaves_));
  for (const std::atomic<Cell*>& block : cells_) delete[] block.load();
}

Registry::CellPlace Registry::place_of(std::uint32_t number) noexcept {
  const std::uint64_t from_first = number + (std::uint64_t{1} << first_cells_bits);
  const auto bits = static_cast<std::size_t>(std::bit_width(from_first)) - 1;
  return {bits - first_cells_bits, from_first - (std::uint64_t{1} << bits)};
}

Registry::Cell& Registry::cell_for(std::uint32_t number) {
  const CellPlace place = place_of(number);
  std::atomic<Cell*>& block = cells_[place.block];
  if (block.load(std::memory_order_relaxed) == nullptr) {
    block.store(new Cell[std::size_t{1} << (first_cells_bits + place.block)],
                std::memory_order_release);
  }
  return block.load(std::memory_order_relaxed)[place.index];
}

/// A reader that sees any store after the first also sees the odd version.
void Registry::Cell::write(const Bounds& bounds) noexcept {
  const std::uint64_t now = version.load(std::memory_order_relaxed);
  version.store(now + 1, std::memory_order_relaxed);
  begin.store(to_integer(bounds.begin), std::memory_order_release);
  size_bytes.store(bounds.size_bytes, std::memory_order_release);
  slot_bytes.store(bounds.slot_bytes, std::memory_order_release);
  version.store(now + 2, std::memory_order_release);
}

Registry::Leaf* Registry::leaf_for(std::uint64_t granule) {
  std::atomic<Leaf*>& leaf = leaves_[granule >> leaf_bits];
  Leaf* entries = leaf.load(std::memory_order_relaxed);
  if (entries == nullptr) {
    leaves_made_.reserve(leaves_made_.size() + 1);  // Steps that may fail come first.
    entries = static_cast<Leaf*>(map_lazily(sizeof(Leaf) << leaf_bits));
    leaves_made_.push_back(entries);
    leaf.store(entries, std::memory_order_release);
  }
  return entries;
}

void Registry::write(const Range& range, std::uint64_t id_bits) {
  const std::uint64_t first = to_integer(range.begin) >> granule_shift_;
  const std::uint64_t granules = range.size_bytes >> granule_shift_;
  const std::uint64_t granules_per_slot = range.slot_bytes >> granule_shift_;
  for (std::uint64_t granule = 0; granule < granules; ++granule) {
    const std::uint64_t entry = id_bits == 0 ? 0 : id_bits | granule / granules_per_slot;
    leaf_for(first + granule)[(first + granule) & leaf_mask].store(entry,
                                                                   std::memory_order_release);
  }
}

AllocationId Registry::insert(Address begin, std::uint64_t size_bytes, std::uint64_t slot_bytes,
                              std::shared_ptr<Allocation> allocation) {
  VMART_CHECK(size_bytes > 0 && slot_bytes > 0, "a range has granules, and slots of some");
  VMART_CHECK(to_integer(begin + size_bytes) >> address_bits == 0,
              "the table covers user addresses");
  const MutexLock lock(mutex_);
  const std::uint64_t first = to_integer(begin) >> granule_shift_;
  for (std::uint64_t granule = 0; granule <= (size_bytes - 1) >> granule_shift_;
       granule += leaf_mask + 1) {
    leaf_for(first + granule);  // Steps that may fail come first.
  }
  leaf_for((to_integer(begin + size_bytes) - 1) >> granule_shift_);
  if (free_ids_.empty()) {
    ranges_.emplace_back();
    try {
      free_ids_.reserve(ranges_.capacity());  // So that `erase` cannot fail.
    } catch (...) {
      ranges_.pop_back();
      throw;
    }
    free_ids_.push_back(static_cast<std::uint32_t>(ranges_.size() - 1));
  }
  const std::uint32_t id = free_ids_.back();
  Cell& cell = cell_for(id);
  free_ids_.pop_back();
  cell.write({begin, size_bytes, slot_bytes});
  ranges_[id] = Range{begin, size_bytes, slot_bytes, std::move(allocation)};
  write(ranges_[id], (std::uint64_t{id} + 1) << 32);
  return AllocationId{id};
}

std::shared_ptr<Allocation> Registry::erase(AllocationId id) noexcept {
  const MutexLock lock(mutex_);
  const auto number = static_cast<std::uint32_t>(id);
  if (number >= ranges_.size() || ranges_[number].size_bytes == 0) return nullptr;
  return erase_number(number);
}

std::shared_ptr<Allocation> Registry::erase_any() noexcept {
  const MutexLock lock(mutex_);
  const auto found =
      std::ranges::find_if(ranges_, [](const Range& range) { return range.size_bytes != 0; });
  if (found == ranges_.end()) return nullptr;
  return erase_number(static_cast<std::uint32_t>(found - ranges_.begin()));
}

std::shared_ptr<Allocation> Registry::erase_number(std::uint32_t number) {
  free_ids_.push_back(number);
  write(ranges_[number], 0);
  ranges_[number].size_bytes = 0;
  cell_for(number).write({});
  return std::move(ranges_[number].allocation);
}

std::optional<Registry::Bounds> Registry::bounds(AllocationId id) const noexcept {
  const CellPlace place = place_of(static_cast<std::uint32_t>(id));
  const Cell* const block = cells_[place.block].load(std::memory_order_acquire);
  if (block == nullptr) return std::nullopt;
  const Cell& cell = block[place.index];
  const std::uint64_t version = cell.version.load(std::memory_order_acquire);
  const Bounds bounds{Address{cell.begin.load(std::memory_order_acquire)},
                      cell.size_bytes.load(std::memory_order_acquire),
                      cell.slot_bytes.load(std::memory_order_acquire)};
  const bool whole = version % 2 == 0 && cell.version.load(std::memory_order_relaxed) == version;
  if (!whole || bounds.size_bytes == 0) return std::nullopt;
  return bounds;
}

std::shared_ptr<Allocation> Registry::hold(Address address) const {
  const MutexLock lock(mutex_);  // Under the lock what `find` says cannot go away.
  const std::optional<Found> found = find(address);
  return found ? ranges_[static_cast<std::uint32_t>(found->id)].allocation : nullptr;
}

std::shared_ptr<Allocation> Registry::get(AllocationId id) const {
  const MutexLock lock(mutex_);
  const auto number = static_cast<std::uint32_t>(id);
  return number < ranges_.size() ? ranges_[number].allocation : nullptr;
}

std::vector<std::shared_ptr<Allocation>> Registry::all() const {
  const MutexLock lock(mutex_);
  std::vector<std::shared_ptr<Allocation>> all;
  for (const Range& range : ranges_) {
    if (range.size_bytes != 0) all.push_back(range.allocation);
  }
  return all;
}

std::size_t Registry::size() const {
  const MutexLock lock(mutex_);
  return ranges_.size() - free_ids_.size();
}

void Registry::check_invariants() const {
  const MutexLock lock(mutex_);
  std::size_t registered = 0;
  std::uint64_t granules = 0;
  for (std::uint32_t id = 0; id < ranges_.size(); ++id) {
    const Range& range = ranges_[id];
    const std::optional<Bounds> told = bounds(AllocationId{id});
    VMART_CHECK(told.has_value() == (range.size_bytes != 0), "bounds are queried while registered");
    if (range.size_bytes == 0) continue;
    VMART_CHECK(told->begin == range.begin && told->size_bytes == range.size_bytes &&
                    told->slot_bytes == range.slot_bytes,
                "and are those of the range");
    ++registered;
    granules += range.size_bytes >> granule_shift_;
    const std::uint64_t granule_bytes = std::uint64_t{1} << granule_shift_;
    for (std::uint64_t offset = 0; offset < range.size_bytes; offset += granule_bytes) {
      const Found expected{AllocationId{id}, static_cast<std::uint32_t>(offset / range.slot_bytes)};
      VMART_CHECK(find(range.begin + offset) == expected, "each granule is in the table");
    }
  }
  std::uint64_t entries = 0;
  for (const Leaf* leaf : leaves_made_) {
    entries += static_cast<std::uint64_t>(std::count_if(
        leaf, leaf + leaf_mask + 1, [](const Leaf& entry) { return entry.load() != 0; }));
  }
  VMART_CHECK(entries == granules, "and nothing else is");
  VMART_CHECK(registered + free_ids_.size() == ranges_.size(), "an id is in use or free");
}

}  // namespace vma
