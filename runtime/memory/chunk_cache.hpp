#pragma once

#include "base/mutex.hpp"
#include "memory/allocation.hpp"
#include "memory/chunk.hpp"
#include "memory/ledger.hpp"

#include <deque>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

namespace vma {

/// Memory that nobody uses now, kept for reuse: chunks, and whole allocations that were freed with
/// their slots still mapped, so that an equal one comes back without a driver call.
///
/// Holds up to a budget at each location. It calls no driver: what is over the budget is handed out
/// as surplus, for somebody to destroy at a good moment. Only memory that is provably idle may be
/// put in. Any thread.
class ChunkCache {
 public:
  /// What was taken out to be given back to the driver, by destroying it.
  struct Surplus {
    std::vector<Chunk> chunks;
    std::vector<std::shared_ptr<Allocation>> allocations;
    std::uint64_t size_bytes = 0;
    bool empty() const { return chunks.empty() && allocations.empty(); }
  };

  ChunkCache(Ledger& ledger, std::uint64_t gpu_budget_bytes, std::uint64_t host_budget_bytes);

  /// A chunk of just this size, or none. Booked as allocated from here on.
  Chunk take(Location at, std::uint64_t size_bytes);
  /// Requires: idle, booked as allocated. False, and it stays the caller's, if there is no memory
  /// to keep track of it.
  bool put(Chunk&& chunk) noexcept;

  /// A freed allocation of just this geometry, all of it at `at`, or null.
  std::shared_ptr<Allocation> take_allocation(Location at, const Geometry& geometry);
  /// Any freed allocation at `at` with a slot of this size, to be taken apart; null if there is
  /// none.
  std::shared_ptr<Allocation> take_allocation_with(Location at, std::uint64_t slot_bytes);
  /// Requires: reusable, booked as allocated. False as for `put`.
  bool put_allocation(Location at, const std::shared_ptr<Allocation>& allocation) noexcept;

  bool over_budget(Location at) const;
  /// What lies over the budget at `at`: allocations before chunks, large before small, and the
  /// oldest of a size first. This and the three below leave in the cache what there is no memory to
  /// keep track of.
  Surplus take_surplus(Location at) noexcept;
  /// Everything at `at`; the budget falls back to what the cache was opened with.
  Surplus take_all(Location at) noexcept;
  /// Everything but the chunks of just this size.
  Surplus take_others(Location at, std::uint64_t size_bytes) noexcept;
  /// No more than makes so much room: the smallest chunk that is as large, or several things that
  /// are together.
  Surplus take_room(Location at, std::uint64_t size_bytes) noexcept;
  /// Raises the budget at `at` by that of so many chunks of a size, until the next `take_all`. What
  /// was reserved of the same size before counts only where it was more.
  void reserve_budget(Location at, std::uint64_t size_bytes, std::uint64_t count);

  std::uint64_t budget_bytes(Location at) const;
  std::uint64_t cached_bytes(Location at) const;
  std::size_t count(Location at, std::uint64_t size_bytes) const;

 private:
  struct Shelf {
    std::map<std::uint64_t, std::deque<Chunk>> chunks;  // By size, oldest first.
    std::map<Geometry, std::deque<std::shared_ptr<Allocation>>> allocations;
    std::map<std::uint64_t, std::uint64_t> reserved;  // How many chunks of a size.
    std::uint64_t reserved_bytes = 0;
    std::uint64_t cached_bytes = 0;
  };

  std::uint64_t base_budget(Location at) const;
  std::uint64_t budget(Location at, const Shelf& shelf) const VMART_REQUIRES(mutex_);
  bool move_down_chunks(Location at, Shelf& shelf, std::uint64_t size_bytes,
                        std::uint64_t limit_bytes, Surplus& surplus) VMART_REQUIRES(mutex_);
  void move_down(Location at, Shelf& shelf, std::uint64_t limit_bytes, Surplus& surplus)
      VMART_REQUIRES(mutex_);
  std::shared_ptr<Allocation> take_front(Location at, Shelf& shelf, const Geometry& geometry)
      VMART_REQUIRES(mutex_);

  Ledger& ledger_;
  const std::uint64_t gpu_budget_bytes_;
  const std::uint64_t host_budget_bytes_;
  mutable Mutex mutex_;
  std::map<Location, Shelf> shelves_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
