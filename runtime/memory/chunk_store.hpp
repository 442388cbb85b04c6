#pragma once

#include "base/mutex.hpp"
#include "machine/topology.hpp"
#include "memory/allocation.hpp"
#include "memory/chunk.hpp"
#include "memory/chunk_cache.hpp"
#include "memory/clean_copies.hpp"
#include "memory/export_terms.hpp"
#include "memory/keepers.hpp"
#include "memory/ledger.hpp"
#include "memory/slow_call_queue.hpp"

#include <vma/place.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

namespace vma {

struct MemoryLimits {
  std::map<Place, std::uint64_t> capacity_bytes;
  std::uint64_t cache_bytes_per_gpu = 512 * (std::uint64_t{1} << 20);
  std::uint64_t host_cache_bytes = std::uint64_t{1} << 30;
  std::chrono::nanoseconds pressure_limit = std::chrono::seconds(2);  ///< See MemoryPressure.
  ExportTypes exportable{};  ///< How new chunks may leave the process.
};

/// The physical memory of a runtime, in chunks: in use, cached, kept as clean copies or set aside,
/// and booked. Any thread.
class ChunkStore {
 public:
  /// Whether the caller holds `slow_calls().turn()` already.
  enum class Turn { take, held };

  /// Requires: both outlive it.
  ChunkStore(Driver& driver, const Topology& topology, const MemoryLimits& limits);
  /// Requires: `stop`, if a call was ever posted to the slow-call queue.
  ~ChunkStore();

  /// A chunk at `at`, from the cache or new, with those of `needs` that the place gives. Throws:
  /// Error{out_of_memory} once the cache and the clean copies there are empty and there is still no
  /// room. `call` is named in errors.
  Chunk obtain(Place at, std::uint64_t size_bytes, Turn turn, const char* call = "vma::alloc",
               const ExportTypes& needs = {});
  /// Creates chunks in the background, one at a time, until the cache has as many of this size or
  /// is full; no more than it lacks now, even if some are taken meanwhile, and none after a `trim`.
  /// Does not block.
  void make_ahead(Place at, std::uint64_t size_bytes, std::size_t chunks) noexcept;
  /// From the cache or none, without a call of the driver.
  Chunk obtain_ready(Place at, std::uint64_t size_bytes, const ExportTypes& needs = {});
  /// The same, if necessary out of a freed allocation, whose slots it unmaps.
  Chunk obtain_cached(Place at, std::uint64_t size_bytes, const ExportTypes& needs = {});
  /// Maps the chunk for copies, unless it is. Page tables need memory too: if there is none, gives
  /// up what is held back for them and the cache at the place. Throws: as `Chunk::map_staging`.
  /// Requires: the chunk's owner is locked.
  void map_staging(const Chunk& chunk, Turn turn);
  /// Refuses what cannot fit by the ledger, even without the cache, before allocating any of it.
  /// Throws: Error{out_of_memory}. Requires: the caller does not hold `slow_calls().turn()`.
  void require_room(Place at, std::uint64_t size_bytes, const char* call);
  /// What can still be claimed at `at` by the ledger, counting the cache as free; UINT64_MAX if
  /// there is no limit.
  std::uint64_t room_bytes(Place at) const;
  /// The most that may be booked at `at` from now on; SIZE_MAX means no limit. If more is booked,
  /// clean copies are released and nothing else. Throws: Error{invalid_argument}. Requires: the
  /// caller does not hold `slow_calls().turn()`.
  void set_capacity(Place at, std::uint64_t size_bytes);
  /// Puts the chunk into the cache; the slow-call queue releases what exceeds the budget. A busy
  /// chunk is quarantined; one that other processes know goes back to the driver. Requires: booked
  /// as allocated; idle unless marked busy.
  void retire(Chunk chunk) noexcept;
  /// A freed allocation: whole to the cache if it lies at one place, else chunk by chunk. Its clean
  /// copies go, and so does the lease of an import, after its memory.
  void take_back(const std::shared_ptr<Allocation>& allocation) noexcept;
  /// Gives the chunk back to the driver at once. Requires: as `retire`; the caller does not hold
  /// `slow_calls().turn()`.
  void dismiss(Chunk chunk) noexcept;
  /// Keeps the chunk as the slot's clean copy; retires it if there is no memory to keep track of
  /// it, or if the slot may have been written to since `epoch`. Requires: as `retire`; the caller
  /// has the allocation's move claim, and the chunk held the slot's bytes in this epoch, in which
  /// all of the allocation was read-only.
  void keep_copy(const Allocation& allocation, std::size_t slot, std::uint64_t epoch,
                 Chunk chunk) noexcept;
  /// The slot's copy at `at`, if it was clean in this epoch; booked as allocated from here on.
  Chunk take_copy(const Allocation& allocation, std::size_t slot, Place at,
                  std::uint64_t epoch) noexcept;
  /// Moves all copies of the allocation to the cache.
  void drop_copies(const Allocation& allocation) noexcept;
  /// Keeps the chunk until the end, since work may still touch it; counts it and its bytes as a
  /// leak.
  void quarantine(Chunk chunk, const char* reason) noexcept;

  /// Makes room, if needed by releasing cached chunks of other sizes. Throws: Error{out_of_memory,
  /// invalid_argument}; the chunks created by then stay.
  void reserve(Place at, std::uint64_t size_bytes, std::uint64_t chunk_bytes);
  /// Releases the cache and the clean copies there. Returns the number of bytes released.
  std::uint64_t trim(Place at, Turn turn = Turn::take);
  /// Releases no more than needed for this much room, if there is that much; the cache first.
  /// Returns the number of bytes released. Requires: the caller holds the turn for slow calls.
  std::uint64_t give_room(Place at, std::uint64_t size_bytes) noexcept;

  /// While one lives, what exceeds the cache's budget is released later, though not much.
  class Hurry {
   public:
    explicit Hurry(ChunkStore& chunks) noexcept : hurried_(chunks.hurried_) { ++hurried_; }
    ~Hurry() { --hurried_; }
    Hurry(const Hurry&) = delete;
    Hurry& operator=(const Hurry&) = delete;

   private:
    std::atomic<int>& hurried_;
  };

  Ledger& ledger() noexcept { return ledger_; }
  const Ledger& ledger() const noexcept { return ledger_; }
  Keepers& keepers() noexcept { return keepers_; }
  ChunkCache& cache() noexcept { return cache_; }
  const ExportTerms& export_terms() const noexcept { return export_terms_; }
  CleanCopies& copies() noexcept { return copies_; }
  SlowCallQueue& slow_calls() noexcept { return slow_calls_; }

  /// The ledger's books match `held`, which allocations hold at each place, and what is kept here.
  /// Requires: no call is under way.
  void check_invariants(const std::map<Place, std::uint64_t>& held) const;
  /// Ends the slow-call queue and gives back what no allocation holds. Only `release` may follow,
  /// and then `release_quarantine`.
  void stop() noexcept;
  /// The allocation's chunks go back to the driver. Requires: the caller holds the turn for slow
  /// calls, or has stopped.
  void release(Allocation& allocation) noexcept;
  /// Of what was set aside, what the driver takes back now. Requires: stopped.
  void release_quarantine() noexcept;

 private:
  Ledger::Account limited_account(Place at) const;
  Chunk create(Place at, std::uint64_t size_bytes, const char* call, const ExportTypes& needs = {});
  Chunk create_or_make_room(Place at, std::uint64_t size_bytes, const char* call,
                            const ExportTypes& needs);
  Chunk create_to_keep(Place at, std::uint64_t size_bytes);
  bool make_one_ahead(Place at, std::uint64_t size_bytes) noexcept;
  void keep(Chunk chunk);
  void keep_or_release(Place at) noexcept;
  // Requires: the caller holds the turn; this holds for the functions below, too.
  void shrink(Place at) noexcept;
  void release_in_turn(ChunkCache::Surplus surplus) noexcept;
  void release_all_in_turn(Place at);
  void release(Chunk chunk) noexcept;
  void release_later(Chunk chunk) noexcept;
  void end_in_turn(std::shared_ptr<const void> owner) noexcept;
  void end_cpu_access(Allocation& allocation) noexcept;
  Chunk create_in_place_of_copies(Place at, std::uint64_t size_bytes, const char* call,
                                  const ExportTypes& needs = {});
  std::uint64_t release_oldest_copy(Place at) noexcept;

  Driver& driver_;
  const Topology& topology_;
  Ledger ledger_;
  Keepers keepers_;
  ChunkCache cache_;
  CleanCopies copies_;
  ExportTerms export_terms_;
  std::atomic<int> hurried_{0};
  mutable Mutex aside_mutex_;
  std::set<Place> shrinks_later_ VMART_GUARDED_BY(aside_mutex_);  // Once no move is in a hurry.
  std::vector<Chunk> quarantine_ VMART_GUARDED_BY(aside_mutex_);
  SlowCallQueue slow_calls_;  // Last: its thread uses all of the above.
};

}  // namespace vma
