#pragma once

#include "base/listener.hpp"
#include "base/mutex.hpp"
#include "machine/topology.hpp"
#include "memory/allocation.hpp"
#include "memory/chunk_cache.hpp"
#include "memory/clean_copies.hpp"
#include "memory/contexts_in_use.hpp"
#include "memory/keepers.hpp"
#include "memory/slow_call_queue.hpp"
#include "memory/ledger.hpp"
#include "memory/memory_watcher.hpp"
#include "memory/move_claim.hpp"
#include "memory/pressure.hpp"
#include "memory/registry.hpp"

#include <vma/runtime.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace vma {

/// How an allocation of `size_bytes` is cut on this machine. Small ones are one chunk of the next
/// size class; from there 64 to 256 MiB by size, 32 MiB where the home is a host node, because host
/// memory maps page by page (scaled with the granularity, 2 MiB on GPUs).
/// Throws: Error{invalid_argument}.
Geometry plan_geometry(std::uint64_t size_bytes, std::uint64_t chunk_bytes, Location home,
                       std::uint64_t granule_bytes);
/// The largest chunk that `plan_geometry` chooses by itself at `home`.
std::uint64_t largest_chunk_bytes(Location home, std::uint64_t granule_bytes);

struct MemoryLimits {
  std::map<Location, std::uint64_t> capacity_bytes;
  std::uint64_t cache_bytes_per_gpu = 512 * (std::uint64_t{1} << 20);
  std::uint64_t host_cache_bytes = std::uint64_t{1} << 30;
  std::chrono::nanoseconds pressure_limit = std::chrono::seconds(2);  ///< See MemoryPressure.
};

/// What the runtime itself asks of an allocation, besides what its users can.
struct AllocTerms {
  /// Called with the allocation before anybody else can find, move or free it. If it throws, the
  /// memory goes back, and `alloc` throws the same.
  std::function<void(const Allocation&)> fill{};
  /// Where the program wants it, if the runtime chose another place.
  std::optional<Location> wanted{};
  /// GPUs that the program named as readers.
  std::vector<DeviceId> readers{};
};

/// All memory of one runtime: makes allocations, takes them back, and lends chunks to moves. Any
/// thread.
class Memory {
 public:
  /// Whether the caller holds `slow_calls().turn()` already.
  enum class Turn { take, held };

  Memory(Driver& driver, const Topology& topology, const MemoryLimits& limits);
  ~Memory();

  /// Throws: Error{out_of_memory, invalid_argument, driver_failure}; then nothing has changed.
  /// Blocks: for the presser, where there is no room. Requires: the caller holds no lock.
  std::shared_ptr<Allocation> alloc(std::uint64_t size_bytes, Location at,
                                    const AllocOptions& options, const AllocTerms& terms = {});
  /// The same with a home for each slot. Requires: `geometry` is one of `plan_geometry`'s; the
  /// options' chunk size says nothing. Throws: Error{invalid_argument} for another number of homes.
  std::shared_ptr<Allocation> alloc(const Geometry& geometry, std::span<const Location> homes,
                                    const AllocOptions& options, const AllocTerms& terms = {});
  /// Waits for the work before it, then takes the memory back. `begin` is an allocation's start.
  /// Who asks for it meanwhile is told that it is being freed, though the wait may yet fail.
  void free(Address begin);
  /// `told` hears where each allocation began that is freed from now on, before its addresses can
  /// be another's. It must not throw. Requires: no call is under way.
  void tell_freed(std::function<void(Address)> told) { told_freed_ = std::move(told); }
  /// One at a time; null is nobody. Blocks: while the former is told something.
  void watch(MemoryWatcher* watcher);
  /// Tells the watcher. Requires: the caller holds no lock.
  void tell_changed(const Allocation& allocation) noexcept;
  /// One at a time; an empty one is nobody. Blocks: while the former makes room.
  void on_pressure(MemoryPressure::Presser presser) { pressure_.set(std::move(presser)); }
  /// The same once `stream` has done what is now enqueued on it. Does not wait.
  void free_async(Address begin, BoundStream stream);

  /// The allocation that starts at the address, for the call `call`. Throws:
  /// Error{unknown_pointer}.
  std::shared_ptr<Allocation> require(const void* pointer, const char* call) const;
  /// The allocation around the address, likewise.
  std::shared_ptr<Allocation> require_around(const void* pointer, const char* call) const;

  /// A chunk at `at`, from the cache or new. Throws: Error{out_of_memory} once the cache there is
  /// empty, no clean copy lies there, and there is still no room.
  /// `call` is what errors name.
  Chunk obtain(Location at, std::uint64_t size_bytes, Turn turn, const char* call = "vma::alloc");
  /// From the cache or none; makes no driver call but to unmap a freed allocation's slots.
  Chunk obtain_cached(Location at, std::uint64_t size_bytes);
  /// Refuses what cannot fit by the books, cache and all, before anything of it is made.
  /// Throws: Error{out_of_memory}. Requires: the caller does not hold `slow_calls().turn()`.
  void require_room(Location at, std::uint64_t size_bytes, const char* call);
  /// What can still be claimed at `at` by the books, cache and all; UINT64_MAX where nothing limits
  /// it.
  std::uint64_t room_bytes(Location at) const;
  /// Returns what `body` does; while it throws Error{out_of_memory} and `ask(at, size_bytes)` says
  /// so, it is tried once more. Throws: what `body` does, an Error{out_of_memory} with who holds
  /// what at `at`.
  template <typename Ask, typename Body>
  auto with_room(Ask&& ask, Location at, std::uint64_t size_bytes, Body&& body);
  /// Most that may be booked at `at` from now on; SIZE_MAX is no limit. Where more is, clean copies
  /// go and nothing else is taken back. Throws: Error{invalid_argument}. Requires: the caller does
  /// not hold `slow_calls().turn()`.
  void set_capacity(Location at, std::uint64_t size_bytes);
  /// Back to the cache; what is over its budget is released by the slow-call queue. A busy chunk is
  /// kept aside, as by `quarantine`. Requires: booked as allocated; idle but for that.
  void retire(Chunk chunk) noexcept;
  /// Back to the driver, at once. Requires: as `retire`; the caller does not hold
  /// `slow_calls().turn()`.
  void dismiss(Chunk chunk) noexcept;
  /// It stays as the slot's clean copy; back to the cache where nobody can keep track of it, or if
  /// somebody may have written to the slot since `epoch`. Requires: as `retire`; the caller has the
  /// allocation's move claim, and the chunk held the slot's bytes in this epoch, in which all of
  /// the allocation was read-only.
  void keep_copy(const Allocation& allocation, std::size_t slot, std::uint64_t epoch,
                 Chunk chunk) noexcept;
  /// The copy that the slot has at `at`, if it was clean in this epoch; booked as allocated from
  /// here on.
  Chunk take_copy(const Allocation& allocation, std::size_t slot, Location at,
                  std::uint64_t epoch) noexcept;
  /// Those of the allocation go to the cache.
  void drop_copies(const Allocation& allocation) noexcept;
  /// Kept until the end, since work may still touch it; counted as a leak, with its bytes.
  void quarantine(Chunk chunk, const char* reason) noexcept;

  /// Makes room at the cost of what the cache holds of other sizes. Throws: Error{out_of_memory,
  /// invalid_argument}; what was made by then stays.
  void reserve(Location at, std::uint64_t size_bytes, std::uint64_t chunk_bytes);
  /// The cache and the clean copies there go. Returns the bytes that were given back.
  std::uint64_t trim(Location at, Turn turn = Turn::take);
  /// Of the same no more than makes so much room, if there is as much; the cache goes first.
  /// Returns the bytes that were given back. Requires: the caller holds the turn for slow calls.
  std::uint64_t give_room(Location at, std::uint64_t size_bytes) noexcept;

  Driver& driver() noexcept { return driver_; }
  const Topology& topology() const noexcept { return topology_; }
  Ledger& ledger() noexcept { return ledger_; }
  Keepers& keepers() noexcept { return keepers_; }
  ChunkCache& cache() noexcept { return cache_; }
  CleanCopies& copies() noexcept { return copies_; }
  SlowCallQueue& slow_calls() noexcept { return slow_calls_; }
  MemoryPressure& pressure() noexcept { return pressure_; }
  Registry& registry() noexcept { return registry_; }
  const Registry& registry() const noexcept { return registry_; }
  ContextsInUse& contexts() noexcept { return contexts_; }

  /// What the ledger has booked is what allocations, cache and the runtime's own chunks hold.
  /// Requires: no call is under way.
  void check_invariants();
  /// Gives everything back, users' memory too, or counts it as leaked (I5). Further calls are not
  /// allowed.
  void shut_down() noexcept;

 private:
  std::shared_ptr<Allocation> build(const Geometry& geometry, std::span<const Location> homes);
  std::vector<Chunk> obtain_all(const Geometry& geometry, std::span<const Location> homes);
  std::shared_ptr<Allocation> enter(std::shared_ptr<Allocation> allocation,
                                    const AllocOptions& options, const AllocTerms& terms);
  Ledger::Account limited_account(Location at) const;
  Error with_holders(const Error& error, Location at) const;
  Chunk create(Location at, std::uint64_t size_bytes, const char* call);
  Chunk create_or_make_room(Location at, std::uint64_t size_bytes, const char* call);
  Chunk create_to_keep(Location at, std::uint64_t size_bytes);
  void keep(Chunk chunk);
  void give_back(const std::shared_ptr<Allocation>& allocation) noexcept;
  void keep_or_release(Location at) noexcept;
  // Requires: the caller holds the turn, and likewise below.
  void release_in_turn(ChunkCache::Surplus surplus) noexcept;
  void release(Allocation& allocation) noexcept;
  void release(Chunk chunk) noexcept;
  Chunk create_in_place_of_copies(Location at, std::uint64_t size_bytes, const char* call);
  std::uint64_t release_oldest_copy(Location at) noexcept;
  void make_ahead(Location at, std::uint64_t size_bytes) noexcept;
  void unregister(Address begin) noexcept;
  std::shared_ptr<Allocation> claim_for_free(Address begin, const char* call);

  Driver& driver_;
  const Topology& topology_;
  Ledger ledger_;
  Keepers keepers_;
  ChunkCache cache_;
  CleanCopies copies_;
  Registry registry_;
  ContextsInUse contexts_;
  std::function<void(Address)> told_freed_;
  Listener<MemoryWatcher> watcher_;
  MemoryPressure pressure_;
  Mutex quarantine_mutex_;
  std::vector<Chunk> quarantine_ VMART_GUARDED_BY(quarantine_mutex_);
  SlowCallQueue slow_calls_;  // Last: its thread uses all of the above.
};

template <typename Ask, typename Body>
auto Memory::with_room(Ask&& ask, Location at, std::uint64_t size_bytes, Body&& body) {
  while (true) {
    try {
      return body();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
      if (!ask(at, size_bytes)) throw with_holders(error, at);
    }
  }
}

}  // namespace vma
