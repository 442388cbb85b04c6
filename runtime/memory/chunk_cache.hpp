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

/// Unused memory, kept for reuse: chunks, and whole allocations that were freed with their slots
/// still mapped, so that an equal one can be allocated without a driver call.
///
/// Holds up to a budget at each place. It makes no driver calls: what exceeds the budget is
/// handed out as surplus, for the caller to destroy at a suitable time. Only memory that is
/// provably idle may be put in. Any thread.
class ChunkCache {
 public:
  /// Memory taken out of the cache; destroying it gives it back to the driver.
  struct Surplus {
    std::vector<Chunk> chunks;
    std::vector<std::shared_ptr<Allocation>> allocations;
    std::uint64_t size_bytes = 0;
    bool empty() const { return chunks.empty() && allocations.empty(); }
  };

  ChunkCache(Ledger& ledger, std::uint64_t gpu_budget_bytes, std::uint64_t host_budget_bytes);

  /// A chunk of exactly this size with at least these types, or an empty one. Booked as allocated
  /// from here on.
  Chunk take(Place at, std::uint64_t size_bytes, const ExportTypes& types = {});
  /// Requires: idle, booked as allocated. False if there is no memory to keep track of the chunk;
  /// then the caller still owns it.
  bool put(Chunk&& chunk) noexcept;

  /// A freed allocation of exactly this geometry, entirely at `at` and of chunks with at least
  /// these types, or null.
  std::shared_ptr<Allocation> take_allocation(Place at, const Geometry& geometry,
                                              const ExportTypes& types = {});
  /// Any freed allocation at `at` with a slot of this size, for the caller to take apart; null if
  /// there is none.
  std::shared_ptr<Allocation> take_allocation_with(Place at, std::uint64_t slot_bytes,
                                                   const ExportTypes& types = {});
  /// Requires: reusable, booked as allocated. Returns false as `put` does.
  bool put_allocation(Place at, const std::shared_ptr<Allocation>& allocation) noexcept;

  bool over_budget(Place at) const;
  /// What exceeds the budget at `at`: allocations before chunks, large before small, and the oldest
  /// of a size first. If there is no memory to keep track of an item, this call and the three below
  /// leave it in the cache.
  Surplus take_surplus(Place at) noexcept;
  /// Everything at `at`; the budget returns to its initial value.
  Surplus take_all(Place at) noexcept;
  /// Everything except the chunks of exactly this size.
  Surplus take_others(Place at, std::uint64_t size_bytes) noexcept;
  /// No more than is needed for this much room: the smallest chunk that is large enough, or several
  /// items that together are.
  Surplus take_room(Place at, std::uint64_t size_bytes) noexcept;
  /// Raises the budget at `at` by `count` chunks of this size, until the next `take_all`. An
  /// earlier reservation of the same size is replaced if the new one is larger.
  void reserve_budget(Place at, std::uint64_t size_bytes, std::uint64_t count);

  std::uint64_t budget_bytes(Place at) const;
  std::uint64_t cached_bytes(Place at) const;
  std::size_t count(Place at, std::uint64_t size_bytes) const;
  /// The same and the slots of this size in freed allocations.
  std::size_t count_with_slots(Place at, std::uint64_t size_bytes) const;
  /// How often `take_all` has been called: what was to be added before is not wanted any more.
  std::uint64_t times_emptied(Place at);

 private:
  struct Shelf {
    std::map<std::uint64_t, std::deque<Chunk>> chunks;  // By size, oldest first.
    std::map<Geometry, std::deque<std::shared_ptr<Allocation>>> allocations;
    std::map<std::uint64_t, std::uint64_t> reserved;  // How many chunks of a size.
    std::uint64_t reserved_bytes = 0;
    std::uint64_t cached_bytes = 0;
    std::uint64_t times_emptied = 0;
  };

  std::uint64_t base_budget(Place at) const;
  std::uint64_t budget(Place at, const Shelf& shelf) const VMART_REQUIRES(mutex_);
  bool move_down_chunks(Place at, Shelf& shelf, std::uint64_t size_bytes, std::uint64_t limit_bytes,
                        Surplus& surplus) VMART_REQUIRES(mutex_);
  void move_down(Place at, Shelf& shelf, std::uint64_t limit_bytes, Surplus& surplus)
      VMART_REQUIRES(mutex_);
  std::shared_ptr<Allocation> take_oldest(Place at, Shelf& shelf, const Geometry& geometry,
                                          const ExportTypes& types) VMART_REQUIRES(mutex_);

  Ledger& ledger_;
  const std::uint64_t gpu_budget_bytes_;
  const std::uint64_t host_budget_bytes_;
  mutable Mutex mutex_;
  std::map<Place, Shelf> shelves_ VMART_GUARDED_BY(mutex_);
};

}  // namespace vma
