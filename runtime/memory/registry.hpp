#pragma once

#include "base/ids.hpp"
#include "base/mutex.hpp"
#include "memory/allocation.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace vma {

/// Names an allocation while it is registered; ids are reused later.
enum class AllocationId : std::uint32_t {};

/// Maps any address to its allocation and slot: a table by granule in two levels, so that a look-up
/// is two loads without a lock, however many allocations there are.
///
/// `find` may run concurrently with everything. Its answer may be out of date a moment later;
/// `hold` returns a reference that keeps the allocation alive.
class Registry {
 public:
  struct Found {
    AllocationId id{};
    std::uint32_t slot = 0;
    friend bool operator==(const Found&, const Found&) = default;
  };

  /// `granule_bytes` is a power of two; every allocation begins and ends on one.
  explicit Registry(std::uint64_t granule_bytes);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  /// Requires: the range overlaps no registered range. `slot_bytes` is a multiple of the granule.
  /// Throws: std::bad_alloc; then nothing is registered.
  AllocationId insert(Address begin, std::uint64_t size_bytes, std::uint64_t slot_bytes,
                      std::shared_ptr<Allocation> allocation);
  /// Returns the allocation, or null if the id is not registered.
  std::shared_ptr<Allocation> erase(AllocationId id) noexcept;

  /// Erases any one allocation; null if none is left.
  std::shared_ptr<Allocation> erase_any() noexcept;

  std::optional<Found> find(Address address) const noexcept {
    const std::uint64_t granule = to_integer(address) >> granule_shift_;
    const std::uint64_t leaf = granule >> leaf_bits;
    if (leaf >= leaf_count_) return std::nullopt;
    const Leaf* entries = leaves_[leaf].load(std::memory_order_acquire);
    if (entries == nullptr) return std::nullopt;
    const std::uint64_t entry = entries[granule & leaf_mask].load(std::memory_order_acquire);
    if (entry == 0) return std::nullopt;
    return Found{AllocationId{static_cast<std::uint32_t>(entry >> 32) - 1},
                 static_cast<std::uint32_t>(entry)};
  }

  /// Range and slot size of a registered allocation.
  struct Bounds {
    Address begin{};
    std::uint64_t size_bytes = 0;
    std::uint64_t slot_bytes = 0;
    bool contains(Address address) const { return address - begin < size_bytes; }
  };
  /// None if the id is not registered, or is being registered or erased at the same time. Takes no
  /// lock and may run concurrently with everything. Does not touch the allocation, which the thread
  /// that freed it may be taking apart.
  std::optional<Bounds> bounds(AllocationId id) const noexcept;
  /// The allocation around the address, null if there is none. Takes a lock.
  std::shared_ptr<Allocation> hold(Address address) const;
  std::shared_ptr<Allocation> get(AllocationId id) const;
  std::vector<std::shared_ptr<Allocation>> all() const;
  std::size_t size() const;

  /// Checks that every registered range is in the table under its id, granule by granule, and that
  /// nothing else is.
  void check_invariants() const;

 private:
  using Leaf = std::atomic<std::uint64_t>;  // (id + 1) << 32 | slot; zero is none.
  static constexpr int address_bits = 49;   // User addresses on x86-64 and on Grace lie below.
  static constexpr int leaf_bits = 15;
  static constexpr std::uint64_t leaf_mask = (1u << leaf_bits) - 1;

  struct Range {
    Address begin{};
    std::uint64_t size_bytes = 0;
    std::uint64_t slot_bytes = 0;
    std::shared_ptr<Allocation> allocation;
  };

  /// The bounds of an id for callers without the lock. The version is odd during a write.
  struct Cell {
    std::atomic<std::uint64_t> version{0}, begin{0}, size_bytes{0}, slot_bytes{0};
    void write(const Bounds& bounds) noexcept;
  };
  static constexpr int first_cells_bits =
      10;  // In the first block of cells; each further block has twice as many.
  static constexpr int cell_blocks = 32 - first_cells_bits + 1;
  struct CellPlace {
    std::size_t block, index;
  };
  static CellPlace place_of(std::uint32_t number) noexcept;
  Cell& cell_for(std::uint32_t number) VMART_REQUIRES(mutex_);

  Leaf* leaf_for(std::uint64_t granule) VMART_REQUIRES(mutex_);
  std::shared_ptr<Allocation> erase_number(std::uint32_t number) VMART_REQUIRES(mutex_);
  void write(const Range& range, std::uint64_t id_bits) VMART_REQUIRES(mutex_);

  const int granule_shift_;
  const std::uint64_t leaf_count_;
  std::atomic<Leaf*>* leaves_;  // Mapped lazily by the kernel; leaves live until the end.
  std::array<std::atomic<Cell*>, cell_blocks> cells_{};  // By id. They live until the end, too.

  mutable Mutex mutex_;
  std::vector<Range> ranges_ VMART_GUARDED_BY(mutex_);  // By id; size 0 is free.
  std::vector<Leaf*> leaves_made_ VMART_GUARDED_BY(mutex_);
  std::vector<std::uint32_t> free_ids_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
