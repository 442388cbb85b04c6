#include "memory/chunk_store.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/mapping_limit.hpp"
#include "base/printable.hpp"
#include "memory/geometry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

constexpr std::size_t usual_chunks_ahead = 2;

Ledger& open_accounts(Ledger& ledger, const Topology& topology, const MemoryLimits& limits) {
  for (const Place at : topology.places()) {
    const auto cap = limits.capacity_bytes.find(at);
    ledger.open(at, cap == limits.capacity_bytes.end() ? UINT64_MAX : cap->second);
  }
  return ledger;
}

Error no_room(const Ledger::Account& account, Place at, std::uint64_t size_bytes,
              const char* call) {
  return Error(ErrorKind::out_of_memory, call,
               fmt::format("{} at {}: its capacity is {}; allocations use {}, the cache {}, clean "
                           "copies {}, the runtime {}, and {} are leaked",
                           bytes_text(size_bytes), to_string(at),
                           bytes_text(account.capacity_bytes), bytes_text(account.allocated_bytes),
                           bytes_text(account.cached_bytes), bytes_text(account.copies_bytes),
                           bytes_text(account.own_bytes), bytes_text(account.leaked_bytes)));
}

}  // namespace

ChunkStore::ChunkStore(Driver& driver, const Topology& topology, const MemoryLimits& limits)
    : driver_(driver),
      topology_(topology),
      keepers_(driver, topology, open_accounts(ledger_, topology, limits)),
      cache_(ledger_, limits.cache_bytes_per_gpu, limits.host_cache_bytes),
      copies_(ledger_),
      export_terms_(driver, topology, limits.exportable),
      slow_calls_(driver) {}

ChunkStore::~ChunkStore() = default;

// --- Room

/// With the capacity limited to the machine's memory.
Ledger::Account ChunkStore::limited_account(Place at) const {
  const std::uint64_t memory_bytes = topology_.memory_bytes(at);  // 0 if unknown.
  Ledger::Account account = ledger_.account(at);
  if (memory_bytes > 0) account.capacity_bytes = std::min(account.capacity_bytes, memory_bytes);
  return account;
}

std::uint64_t ChunkStore::room_bytes(Place at) const {
  const Ledger::Account account = limited_account(at);
  if (account.capacity_bytes == UINT64_MAX) return UINT64_MAX;
  const std::uint64_t used_bytes = account.total() - account.spare_bytes();
  return account.capacity_bytes - std::min(used_bytes, account.capacity_bytes);
}

void ChunkStore::require_room(Place at, std::uint64_t size_bytes, const char* call) {
  if (size_bytes <= room_bytes(at)) return;
  {
    const MutexLock lock(slow_calls_.turn());
    slow_calls_.run_here();  // What waits to be released is booked until then.
  }
  if (size_bytes > room_bytes(at)) throw no_room(limited_account(at), at, size_bytes, call);
}

void ChunkStore::set_capacity(Place at, std::uint64_t size_bytes) {
  topology_.require(at, "vma::set_capacity");
  ledger_.open(at, size_bytes);
  const auto over = [&] {  // The cache is released only when the room is needed.
    const Ledger::Account account = ledger_.account(at);
    return account.copies_bytes > 0 && account.total() - account.cached_bytes > size_bytes;
  };
  if (!over()) return;
  const MutexLock lock(slow_calls_.turn());
  while (over() && release_oldest_copy(at) > 0) {
  }
}

// --- Chunks

Chunk ChunkStore::obtain_ready(Place at, std::uint64_t size_bytes, const ExportTypes& needs) {
  return cache_.take(at, size_bytes, export_terms_.given(at, needs));
}

Chunk ChunkStore::obtain_cached(Place at, std::uint64_t size_bytes, const ExportTypes& needs) {
  Chunk chunk = obtain_ready(at, size_bytes, needs);
  if (chunk) return chunk;
  const ExportTypes types = export_terms_.given(at, needs);
  std::shared_ptr<Allocation> freed = cache_.take_allocation_with(at, size_bytes, types);
  if (!freed) return chunk;
  for (std::size_t slot = 0; slot < freed->geometry().slots; ++slot) {
    Chunk part = freed->take_out(slot);
    if (!chunk && part && part.size_bytes() == size_bytes) {
      chunk = std::move(part);
    } else {
      retire(std::move(part));
    }
  }
  end_in_turn(std::move(freed));  // Its addresses.
  return chunk;
}

Chunk ChunkStore::obtain(Place at, std::uint64_t size_bytes, Turn turn, const char* call,
                         const ExportTypes& needs) {
  Chunk chunk = obtain_cached(at, size_bytes, needs);
  if (!chunk) {
    if (turn == Turn::held) {
      chunk = create_or_make_room(at, size_bytes, call, needs);
    } else {
      const MutexLock lock(slow_calls_.turn());
      chunk = create_or_make_room(at, size_bytes, call, needs);
    }
  }
  if (at.kind == Place::Kind::host) make_ahead(at, size_bytes, usual_chunks_ahead);
  return chunk;
}

void ChunkStore::map_staging(const Chunk& chunk, Turn turn) {
  if (!chunk || chunk.has_staging()) return;
  if (turn == Turn::take) {
    const MutexLock lock(slow_calls_.turn());
    return map_staging(chunk, Turn::held);
  }
  const std::vector<Accessor>& readers = topology_.readers(chunk.at());
  try {
    return chunk.map_staging(readers);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
  }
  keepers_.give_up_spares();
  release_all_in_turn(chunk.at());
  chunk.map_staging(readers);
}

Chunk ChunkStore::create(Place at, std::uint64_t size_bytes, const char* call,
                         const ExportTypes& needs) {
  if (!ledger_.claim(at, size_bytes, Ledger::Use::allocated)) {
    throw no_room(ledger_.account(at), at, size_bytes, call);
  }
  try {
    const ChunkMemory memory = export_terms_.create(at, size_bytes, needs);
    if (at.kind == Place::Kind::gpu) return Chunk(driver_, ledger_, memory);
    // Host memory takes twenty times as long to create as to map, and a first move would wait
    // for a mapping of it for half as long as for its copy.
    return Chunk(driver_, ledger_, memory, topology_.readers(at));
  } catch (...) {
    ledger_.unclaim(at, size_bytes, Ledger::Use::allocated);
    throw;
  }
}

Chunk ChunkStore::create_or_make_room(Place at, std::uint64_t size_bytes, const char* call,
                                      const ExportTypes& needs) {
  try {
    return create(at, size_bytes, call, needs);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
  }
  release_all_in_turn(at);
  return create_in_place_of_copies(at, size_bytes, call, needs);
}

/// What is cached at the place, and what waits for the turn to be released.
void ChunkStore::release_all_in_turn(Place at) {
  slow_calls_.run_here();
  release_in_turn(cache_.take_all(at));
}

/// Creates a chunk, or reuses one that was a copy. Drops as many copies as needed.
Chunk ChunkStore::create_in_place_of_copies(Place at, std::uint64_t size_bytes, const char* call,
                                            const ExportTypes& needs) {
  while (true) {
    try {
      return create(at, size_bytes, call, needs);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
      Chunk copy = copies_.drop_oldest(at, size_bytes);
      if (copy && copy.types().includes(export_terms_.given(at, needs))) return copy;
      if (copy) {
        release(std::move(copy));
        continue;
      }
      if (release_oldest_copy(at) == 0) throw;
    }
  }
}

std::uint64_t ChunkStore::release_oldest_copy(Place at) noexcept {
  Chunk copy = copies_.drop_oldest(at);
  const std::uint64_t size_bytes = copy ? copy.size_bytes() : 0;
  release(std::move(copy));
  return size_bytes;
}

// --- Clean copies

void ChunkStore::keep_copy(const Allocation& allocation, std::size_t slot, std::uint64_t epoch,
                           Chunk chunk) noexcept {
  if (!chunk || chunk.busy() || chunk.shared() || allocation.being_freed)
    return retire(std::move(chunk));
  retire(copies_.drop(allocation.begin(), slot));
  if (!copies_.put(allocation.begin(), slot, epoch, std::move(chunk)))
    return retire(std::move(chunk));
  // A thread that allows writing raises the epoch first and drops the copies afterwards; so does an
  // export. Either it sees this copy, or this check sees the change.
  if (allocation.writable_epoch() != epoch || allocation.exported)
    retire(copies_.drop(allocation.begin(), slot));
}

Chunk ChunkStore::take_copy(const Allocation& allocation, std::size_t slot, Place at,
                            std::uint64_t epoch) noexcept {
  return copies_.take(allocation.begin(), slot, at, epoch);
}

void ChunkStore::drop_copies(const Allocation& allocation) noexcept {
  while (Chunk copy = copies_.drop_any(allocation.begin())) retire(std::move(copy));
}

void ChunkStore::retire(Chunk chunk) noexcept {
  if (!chunk) return;
  if (chunk.busy()) return quarantine(std::move(chunk), "work that failed may still touch it");
  if (chunk.shared() || chunk.imported()) return release_later(std::move(chunk));
  const Place at = chunk.at();
  if (cache_.put(std::move(chunk))) return keep_or_release(at);
  quarantine(std::move(chunk), "there is no host memory to track it");
}

void ChunkStore::take_back(const std::shared_ptr<Allocation>& allocation) noexcept {
  drop_copies(*allocation);  // Another allocation may get its addresses and epochs from here on.
  end_cpu_access(*allocation);
  if (allocation->reusable()) {
    const Place at = allocation->place(0);
    if (cache_.put_allocation(at, allocation)) return keep_or_release(at);
  }
  for (std::size_t slot = 0; slot < allocation->geometry().slots; ++slot) {
    retire(allocation->take_out(slot));
  }
  if (allocation->import_lease) end_in_turn(std::exchange(allocation->import_lease, nullptr));
}

/// A later access is a segmentation fault. Where the driver refuses, the slots are not reused.
void ChunkStore::end_cpu_access(Allocation& allocation) noexcept {
  try {
    allocation.revoke_cpu(0, allocation.geometry().slots);
  } catch (const std::exception& error) {
    log(LogLevel::warn, "could not revoke the CPU's access to {:#x}: {}",
        to_integer(allocation.begin()), error.what());
  }
}

/// Drops what only the caller holds, behind the releases that wait in the queue. Without memory to
/// post it, at once: a stop of another move may take longer, or an exporter learn of it early.
void ChunkStore::end_in_turn(std::shared_ptr<const void> owner) noexcept {
  try {
    slow_calls_.post([last = std::move(owner)] {});
  } catch (const std::exception&) {
  }
}

void ChunkStore::dismiss(Chunk chunk) noexcept {
  if (!chunk || chunk.busy()) return retire(std::move(chunk));
  const MutexLock lock(slow_calls_.turn());
  release(std::move(chunk));
}

void ChunkStore::quarantine(Chunk chunk, const char* reason) noexcept {
  const Place at = chunk.at();
  ledger_.leaked("{} bytes at {}: {}", chunk.size_bytes(), to_string(at), reason);
  if (chunk.imported())
    ledger_.leak_bytes(at, chunk.size_bytes());
  else
    ledger_.shift(at, chunk.size_bytes(), Ledger::Use::allocated, Ledger::Use::leaked);
  try {
    const MutexLock lock(aside_mutex_);
    quarantine_.push_back(std::move(chunk));
  } catch (const std::exception&) {
    chunk.abandon();
  }
}

/// The driver does not create chunks beside releases, so these leave a move alone, for a while.
void ChunkStore::keep_or_release(Place at) noexcept {
  constexpr std::chrono::milliseconds patience(100);
  if (!cache_.over_budget(at)) return;
  try {
    if (hurried_ == 0) {
      return slow_calls_.post([this, at] { release_in_turn(cache_.take_surplus(at)); });
    }
    {
      const MutexLock lock(aside_mutex_);
      if (!shrinks_later_.insert(at).second) return;
    }
    const TimePoint latest = driver_.clock().now() + patience;
    slow_calls_.post_when(
        [this, latest] { return hurried_ == 0 || driver_.clock().now() >= latest; },
        [this, at] { shrink(at); });
  } catch (const std::exception& error) {  // The next surplus takes it along.
    const MutexLock lock(aside_mutex_);
    shrinks_later_.erase(at);
    log(LogLevel::warn, "cannot shrink the cache to its budget yet: {}", error.what());
  }
}

void ChunkStore::shrink(Place at) noexcept {
  {
    const MutexLock lock(aside_mutex_);
    shrinks_later_.erase(at);
  }
  release_in_turn(cache_.take_surplus(at));
}

void ChunkStore::release_in_turn(ChunkCache::Surplus surplus) noexcept {
  for (const std::shared_ptr<Allocation>& allocation : surplus.allocations) release(*allocation);
  for (Chunk& chunk : surplus.chunks) release(std::move(chunk));
}

void ChunkStore::release(Allocation& allocation) noexcept {
  for (std::size_t slot = 0; slot < allocation.geometry().slots; ++slot) {
    release(allocation.take_out(slot));
  }
  allocation.import_lease.reset();
}

void ChunkStore::release(Chunk chunk) noexcept {
  if (!chunk) return;
  const Place at = chunk.at();
  const bool booked = !chunk.imported();
  chunk.release();
  if (booked) ledger_.unclaim(at, chunk.size_bytes(), Ledger::Use::allocated);
}

/// By the slow-call thread, because the caller may or may not hold the turn.
void ChunkStore::release_later(Chunk chunk) noexcept {
  std::shared_ptr<Chunk> kept;
  try {
    kept = std::make_shared<Chunk>(std::move(chunk));
    slow_calls_.post([this, kept] { release(std::move(*kept)); });
  } catch (const std::exception&) {
    quarantine(kept ? std::move(*kept) : std::move(chunk), "there is no host memory to release it");
  }
}

void ChunkStore::make_ahead(Place at, std::uint64_t size_bytes, std::size_t chunks) noexcept {
  try {
    const auto wanted = [this, at, size_bytes, chunks, times = cache_.times_emptied(at)] {
      return cache_.times_emptied(at) == times &&
             cache_.count_with_slots(at, size_bytes) < chunks &&
             cache_.cached_bytes(at) + size_bytes <= cache_.budget_bytes(at);
    };
    const std::size_t ready = cache_.count_with_slots(at, size_bytes);
    if (ready >= chunks || !wanted()) return;
    slow_calls_.post_steps([this, at, size_bytes, wanted, left = chunks - ready]() mutable {
      return wanted() && make_one_ahead(at, size_bytes) && --left > 0;
    });
  } catch (const std::exception& error) {
    log(LogLevel::debug, "stops allocating host chunks in advance: {}", error.what());
  }
}

bool ChunkStore::make_one_ahead(Place at, std::uint64_t size_bytes) noexcept {
  try {
    keep(create(at, size_bytes, "vma::alloc"));
    return true;
  } catch (const std::exception& error) {
    log(LogLevel::debug, "could not allocate a host chunk in advance: {}", error.what());
    return false;
  }
}

/// Throws: std::bad_alloc if the cache has no memory to keep track of the chunk, which is then
/// released.
void ChunkStore::keep(Chunk chunk) {
  if (cache_.put(std::move(chunk))) return;
  release(std::move(chunk));
  throw std::bad_alloc();
}

void ChunkStore::reserve(Place at, std::uint64_t size_bytes, std::uint64_t chunk_bytes) {
  topology_.require(at, "vma::reserve");
  const std::uint64_t granule = topology_.granularity();
  if (size_bytes == 0 || chunk_bytes > largest_chunk_bytes(gpu(0), granule)) {
    throw Error(ErrorKind::invalid_argument, "vma::reserve",
                fmt::format("{} in chunks of {}; ask for more than 0 B in chunks of at most {}",
                            bytes_text(size_bytes), bytes_text(chunk_bytes),
                            bytes_text(largest_chunk_bytes(gpu(0), granule))));
  }
  const std::uint64_t wanted =
      chunk_bytes == 0 ? largest_chunk_bytes(at, granule)
                       : plan_geometry(chunk_bytes, chunk_bytes, at, granule).chunk_bytes;
  const std::uint64_t have = cache_.count(at, wanted);
  const std::uint64_t need = size_bytes / wanted + (size_bytes % wanted != 0 ? 1 : 0);
  naming_mapping_limit("vma::reserve", [&] {
    for (std::uint64_t made = have; made < need; ++made) {
      const MutexLock lock(slow_calls_.turn());
      slow_calls_.run_here();  // Releases that wait for the turn.
      Chunk chunk = create_to_keep(at, wanted);
      map_staging(chunk, Turn::held);  // Most are for moves.
      cache_.reserve_budget(at, wanted, made + 1);
      keep(std::move(chunk));
    }
  });
}

/// Evicts cached chunks of other sizes if there is no room otherwise.
Chunk ChunkStore::create_to_keep(Place at, std::uint64_t size_bytes) {
  constexpr const char* call = "vma::reserve";
  try {
    return create(at, size_bytes, call);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
  }
  release_in_turn(cache_.take_others(at, size_bytes));
  return create_in_place_of_copies(at, size_bytes, call);
}

std::uint64_t ChunkStore::give_room(Place at, std::uint64_t size_bytes) noexcept {
  ChunkCache::Surplus surplus = cache_.take_room(at, size_bytes);
  std::uint64_t given_bytes = surplus.size_bytes;
  release_in_turn(std::move(surplus));
  while (given_bytes < size_bytes) {
    const std::uint64_t copy_bytes = release_oldest_copy(at);
    if (copy_bytes == 0) break;
    given_bytes += copy_bytes;
  }
  return given_bytes;
}

std::uint64_t ChunkStore::trim(Place at, Turn turn) {
  topology_.require(at, "vma::trim");
  if (turn == Turn::take) {
    const MutexLock lock(slow_calls_.turn());
    slow_calls_.run_here();  // First, since what it puts into the cache is released too.
    return trim(at, Turn::held);
  }
  ChunkCache::Surplus surplus = cache_.take_all(at);
  const std::uint64_t size_bytes = surplus.size_bytes;
  release_in_turn(std::move(surplus));
  std::uint64_t copies_bytes = 0;
  while (const std::uint64_t copy_bytes = release_oldest_copy(at)) copies_bytes += copy_bytes;
  return size_bytes + copies_bytes;
}

// --- The whole

void ChunkStore::check_invariants(const std::map<Place, std::uint64_t>& held) const {
  std::map<Place, std::uint64_t> kept_aside;
  {
    const MutexLock lock(aside_mutex_);
    for (const Chunk& chunk : quarantine_) kept_aside[chunk.at()] += chunk.size_bytes();
  }
  for (const Place at : topology_.places()) {
    const auto of_allocations = held.find(at);
    const std::uint64_t held_bytes = of_allocations == held.end() ? 0 : of_allocations->second;
    const Ledger::Account account = ledger_.account(at);
    VMART_CHECK(account.allocated_bytes == held_bytes, "the ledger matches what allocations hold");
    VMART_CHECK(account.cached_bytes == cache_.cached_bytes(at), "and what the cache holds");
    VMART_CHECK(account.copies_bytes == copies_.bytes(at), "and what clean copies hold");
    VMART_CHECK(account.leaked_bytes >= kept_aside[at], "memory set aside counts as leaked");
    VMART_CHECK(account.total() <= account.most_bytes, "usage never exceeds the capacity");
  }
}

void ChunkStore::stop() noexcept {
  slow_calls_.stop();
  for (const Place at : topology_.places()) {
    release_in_turn(cache_.take_all(at));
    while (release_oldest_copy(at) > 0) {
    }
  }
}

void ChunkStore::release_quarantine() noexcept {
  const MutexLock lock(aside_mutex_);
  for (Chunk& chunk : quarantine_) {
    const Place at = chunk.at();
    if (chunk.release()) ledger_.unclaim(at, chunk.size_bytes(), Ledger::Use::leaked);
  }
  quarantine_.clear();
}

}  // namespace vma
