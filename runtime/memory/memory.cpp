#include "memory/memory.hpp"

#include "base/check.hpp"
#include "base/log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace vma {
namespace {

Ledger& open_accounts(Ledger& ledger, const Topology& topology, const MemoryLimits& limits) {
  for (const Location at : topology.locations()) {
    const auto cap = limits.capacity_bytes.find(at);
    ledger.open(at, cap == limits.capacity_bytes.end() ? UINT64_MAX : cap->second);
  }
  return ledger;
}

Error no_room(const Ledger::Account& account, Location at, std::uint64_t size_bytes,
              const char* call) {
  return Error(ErrorKind::out_of_memory, call,
               fmt::format("{} bytes at {}: of its capacity of {} bytes, allocations hold {}, the "
                           "cache {}, the runtime {}",
                           size_bytes, to_string(at), account.capacity_bytes,
                           account.allocated_bytes, account.cached_bytes, account.own_bytes));
}

}  // namespace

Memory::Memory(Driver& driver, const Topology& topology, const MemoryLimits& limits)
    : driver_(driver),
      topology_(topology),
      keepers_(driver, topology, open_accounts(ledger_, topology, limits)),
      cache_(ledger_, limits.cache_bytes_per_gpu, limits.host_cache_bytes),
      registry_(topology.granularity()),
      contexts_(driver, topology, ledger_),
      lane_(driver) {}

Memory::~Memory() {
  shut_down();
}

// --- Allocations

std::shared_ptr<Allocation> Memory::alloc(std::uint64_t size_bytes, Location at,
                                          const AllocOptions& options) {
  topology_.require(at, "vma::alloc");
  const Geometry geometry =
      plan_geometry(size_bytes, options.chunk_bytes, at, topology_.granularity());
  std::shared_ptr<Allocation> allocation = cache_.take_allocation(at, geometry);
  if (!allocation) allocation = build(geometry, at);
  allocation->tag = options.tag;
  allocation->movable = options.movable;
  allocation->being_freed = false;
  try {
    registry_.insert(allocation->begin(), allocation->size_bytes(), geometry.chunk_bytes,
                     allocation);
  } catch (...) {
    give_back(std::move(allocation));
    throw;
  }
  return allocation;
}

void Memory::require_room(Location at, std::uint64_t size_bytes, const char* call) {
  const std::uint64_t memory_bytes = topology_.memory_bytes(at);  // 0 where nobody knows.
  Ledger::Account account;
  const auto fits = [&] {
    account = ledger_.account(at);
    if (memory_bytes > 0) account.capacity_bytes = std::min(account.capacity_bytes, memory_bytes);
    const std::uint64_t used_bytes = account.allocated_bytes + account.own_bytes;
    return size_bytes <= account.capacity_bytes &&
           used_bytes <= account.capacity_bytes - size_bytes;
  };
  if (fits()) return;
  {
    const MutexLock lock(lane_.turn());
    lane_.run_here();  // What waits to be released is booked until then.
  }
  if (!fits()) throw no_room(account, at, size_bytes, call);
}

std::shared_ptr<Allocation> Memory::build(const Geometry& geometry, Location at) {
  require_room(at, geometry.size_bytes(), "vma::alloc");
  auto allocation = std::make_shared<Allocation>(
      driver_, ledger_, Reservation(driver_, ledger_, geometry.size_bytes()), geometry);
  std::vector<Chunk> chunks;
  try {
    chunks.reserve(geometry.slots);
    for (std::size_t slot = 0; slot < geometry.slots; ++slot) {
      chunks.push_back(obtain(at, geometry.slot_bytes(slot), Turn::take));
    }
    try {
      allocation->show_all(chunks, topology_.readers(at));
    } catch (const Error& error) {
      // Page tables need memory too: give up what is held back for them and try once more.
      const bool whole = chunks.size() == geometry.slots;
      if (error.kind() != ErrorKind::out_of_memory || !whole || !keepers_.give_up_spares()) throw;
      allocation->show_all(chunks, topology_.readers(at));
    }
  } catch (...) {
    for (Chunk& chunk : chunks) retire(std::move(chunk));
    throw;
  }
  return allocation;
}

std::shared_ptr<Allocation> Memory::require_around(const void* pointer, const char* call) const {
  std::shared_ptr<Allocation> allocation = registry_.hold(address_of(pointer));
  if (allocation) return allocation;
  throw Error(ErrorKind::unknown_pointer, call,
              fmt::format("{} points into no allocation of this runtime", fmt::ptr(pointer)));
}

std::shared_ptr<Allocation> Memory::require(const void* pointer, const char* call) const {
  std::shared_ptr<Allocation> allocation = require_around(pointer, call);
  if (allocation->begin() == address_of(pointer)) return allocation;
  throw Error(ErrorKind::unknown_pointer, call,
              fmt::format("{} points into an allocation that starts at {:#x}", fmt::ptr(pointer),
                          to_integer(allocation->begin())));
}

std::shared_ptr<Allocation> Memory::claim_for_free(Address begin, const char* call) {
  std::shared_ptr<Allocation> allocation = require(to_pointer(begin), call);
  const auto refuse_pinned = [&] {
    if (allocation->pins == 0) return;
    throw Error(ErrorKind::pinned, call,
                fmt::format("a HostView of {:#x} lives", to_integer(begin)));
  };
  refuse_pinned();
  if (allocation->being_freed.exchange(true)) {
    throw Error(ErrorKind::unknown_pointer, call,
                fmt::format("{:#x} is being freed already", to_integer(begin)));
  }
  try {
    refuse_pinned();  // Once more: a view pins first, and looks for the claim then.
  } catch (...) {
    allocation->being_freed = false;
    throw;
  }
  return allocation;
}

void Memory::free(Address begin) {
  std::shared_ptr<Allocation> allocation = claim_for_free(begin, "vma::free");
  try {
    const MutexLock lock(allocation->operations());  // A move of it ends first.
    contexts_.drain();
  } catch (...) {
    allocation->being_freed = false;
    throw;
  }
  registry_.erase(registry_.find(begin)->id);
  give_back(std::move(allocation));
}

void Memory::free_async(Address begin, BoundStream stream) {
  std::shared_ptr<Allocation> allocation = claim_for_free(begin, "vma::free_async");
  EventHandle event{};
  try {
    if (driver_.is_capturing(stream)) {
      throw Error(ErrorKind::invalid_argument, "vma::free_async", "the stream captures");
    }
    event = contexts_.take_event(stream.context);
    driver_.record(event, stream);
  } catch (...) {
    if (!is_none(event)) contexts_.give_back(stream.context, event);
    allocation->being_freed = false;
    throw;
  }
  registry_.erase(registry_.find(begin)->id);
  const auto ready = [this, allocation, event] {
    try {
      return driver_.query_event(event) && allocation->operations().is_free();
    } catch (const std::exception& error) {  // The context is broken: nothing of it runs any more.
      log(LogLevel::warn, "an event that free_async waits for failed: {}", error.what());
      return allocation->operations().is_free();
    }
  };
  lane_.post_when(ready, [this, allocation, event, stream] {
    contexts_.give_back(stream.context, event);
    give_back(allocation);
  });
}

void Memory::give_back(std::shared_ptr<Allocation> allocation) noexcept {
  const Location at = allocation->home(0);
  if (!allocation->poisoned() && allocation->at_one_place()) {
    cache_.put_allocation(at, std::move(allocation));
    keep_or_release(at);
    return;
  }
  for (Chunk& chunk : allocation->take_apart()) retire(std::move(chunk));
}

// --- Chunks

Chunk Memory::obtain_cached(Location at, std::uint64_t size_bytes) {
  Chunk chunk = cache_.take(at, size_bytes);
  if (chunk) return chunk;
  const std::shared_ptr<Allocation> freed = cache_.take_allocation_with(at, size_bytes);
  if (!freed) return chunk;
  for (Chunk& part : freed->take_apart()) cache_.put(std::move(part));
  return cache_.take(at, size_bytes);
}

Chunk Memory::obtain(Location at, std::uint64_t size_bytes, Turn turn, const char* call) {
  Chunk chunk = obtain_cached(at, size_bytes);
  if (!chunk) {
    if (turn == Turn::held) {
      chunk = create_or_make_room(at, size_bytes, call);
    } else {
      const MutexLock lock(lane_.turn());
      chunk = create_or_make_room(at, size_bytes, call);
    }
  }
  if (at.kind == Location::Kind::host) make_ahead(at, size_bytes);
  return chunk;
}

Chunk Memory::create(Location at, std::uint64_t size_bytes, const char* call) {
  if (!ledger_.claim(at, size_bytes, Ledger::Use::allocated)) {
    throw no_room(ledger_.account(at), at, size_bytes, call);
  }
  try {
    return Chunk(driver_, ledger_, at, size_bytes, topology_.readers(at));
  } catch (...) {
    ledger_.unclaim(at, size_bytes, Ledger::Use::allocated);
    throw;
  }
}

Chunk Memory::create_or_make_room(Location at, std::uint64_t size_bytes, const char* call) {
  try {
    return create(at, size_bytes, call);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
  }
  lane_.run_here();  // Releases that wait for their turn.
  trim(at, Turn::held);
  return create(at, size_bytes, call);
}

void Memory::retire(Chunk chunk) noexcept {
  const Location at = chunk.at();
  cache_.put(std::move(chunk));
  keep_or_release(at);
}

void Memory::quarantine(Chunk chunk, const char* reason) noexcept {
  ledger_.leaked(
      fmt::format("{} bytes at {}: {}", chunk.size_bytes(), to_string(chunk.at()), reason));
  const MutexLock lock(quarantine_mutex_);
  quarantine_.push_back(std::move(chunk));
}

void Memory::keep_or_release(Location at) noexcept {
  auto surplus = std::make_shared<ChunkCache::Surplus>(cache_.take_surplus(at));
  if (surplus->empty()) return;
  lane_.post([this, surplus] { release_in_turn(std::move(*surplus)); });
}

void Memory::release_in_turn(ChunkCache::Surplus surplus) noexcept {
  for (const std::shared_ptr<Allocation>& allocation : surplus.allocations) {
    for (Chunk& chunk : allocation->take_apart()) surplus.chunks.push_back(std::move(chunk));
  }
  for (Chunk& chunk : surplus.chunks) {
    ledger_.unclaim(chunk.at(), chunk.size_bytes(), Ledger::Use::allocated);
    chunk = Chunk();
  }
}

void Memory::make_ahead(Location at, std::uint64_t size_bytes) {
  constexpr std::size_t chunks_ahead = 2;
  const auto wanted = [this, at, size_bytes] {
    return cache_.count(at, size_bytes) < chunks_ahead &&
           cache_.cached_bytes(at) + size_bytes <= cache_.budget_bytes(at);
  };
  if (!wanted()) return;
  lane_.post([this, at, size_bytes, wanted] {
    try {
      while (wanted()) cache_.put(create(at, size_bytes, "vma::alloc"));
    } catch (const std::exception& error) {
      log(LogLevel::debug, "no host chunk was made ahead of need: {}", error.what());
    }
  });
}

void Memory::reserve(Location at, std::uint64_t size_bytes, std::uint64_t chunk_bytes) {
  topology_.require(at, "vma::reserve");
  const std::uint64_t granule = topology_.granularity();
  if (size_bytes == 0 || chunk_bytes > largest_chunk_bytes(gpu(0), granule)) {
    throw Error(
        ErrorKind::invalid_argument, "vma::reserve",
        fmt::format("{} bytes in chunks of {}; more than 0 in chunks of at most {} can be kept",
                    size_bytes, chunk_bytes, largest_chunk_bytes(gpu(0), granule)));
  }
  const std::uint64_t wanted =
      chunk_bytes == 0 ? largest_chunk_bytes(at, granule)
                       : plan_geometry(chunk_bytes, chunk_bytes, at, granule).chunk_bytes;
  const std::uint64_t have = cache_.count(at, wanted);
  const std::uint64_t need = size_bytes / wanted + (size_bytes % wanted != 0 ? 1 : 0);
  for (std::uint64_t made = have; made < need; ++made) {
    const MutexLock lock(lane_.turn());
    lane_.run_here();  // Releases that wait for their turn.
    Chunk chunk = create(at, wanted, "vma::reserve");
    cache_.raise_budget(at, wanted);
    cache_.put(std::move(chunk));
  }
}

std::uint64_t Memory::trim(Location at, Turn turn) {
  topology_.require(at, "vma::trim");
  if (turn == Turn::take) {
    const MutexLock lock(lane_.turn());
    lane_.run_here();  // First, since what it makes ahead of need goes too.
    return trim(at, Turn::held);
  }
  ChunkCache::Surplus surplus = cache_.take_all(at);
  const std::uint64_t size_bytes = surplus.size_bytes;
  release_in_turn(std::move(surplus));
  return size_bytes;
}

// --- The whole

void Memory::check_invariants() {
  registry_.check_invariants();
  std::map<Location, std::uint64_t> held;
  for (const std::shared_ptr<Allocation>& allocation : registry_.all()) {
    for (const Extent& extent : allocation->extents()) held[extent.at] += extent.bytes;
  }
  {
    const MutexLock lock(quarantine_mutex_);
    for (const Chunk& chunk : quarantine_) held[chunk.at()] += chunk.size_bytes();
  }
  for (const Location at : topology_.locations()) {
    const Ledger::Account account = ledger_.account(at);
    VMART_CHECK(account.allocated_bytes == held[at], "what is booked is what allocations hold");
    VMART_CHECK(account.cached_bytes == cache_.cached_bytes(at), "and what the cache holds");
    VMART_CHECK(account.total() <= account.capacity_bytes, "nobody takes more than the capacity");
  }
}

void Memory::shut_down() noexcept {
  lane_.stop();
  for (const Location at : topology_.locations()) release_in_turn(cache_.take_all(at));
  for (const std::shared_ptr<Allocation>& allocation : registry_.all()) {
    registry_.erase(registry_.find(allocation->begin())->id);
    ChunkCache::Surplus all;
    all.chunks = allocation->close();  // A HostView may outlive the driver.
    release_in_turn(std::move(all));
  }
  const MutexLock lock(quarantine_mutex_);
  quarantine_.clear();
}

}  // namespace vma
