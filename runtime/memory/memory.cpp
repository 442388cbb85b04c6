#include "memory/memory.hpp"

#include "base/check.hpp"
#include "base/log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <new>
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
  return Error(
      ErrorKind::out_of_memory, call,
      fmt::format("{} bytes at {}: of its capacity of {} bytes, allocations hold {}, the "
                  "cache {}, the runtime {}, and {} are leaked",
                  size_bytes, to_string(at), account.capacity_bytes, account.allocated_bytes,
                  account.cached_bytes, account.own_bytes, account.leaked_bytes));
}

/// What `free_async` has to give back.
struct PendingFree {
  std::shared_ptr<Allocation> allocation;
  EventHandle event{};
  BoundStream stream;
  std::atomic<bool> unregistered{false};
  MoveClaim claim{};  // Nobody moves it any more.
};

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
  try {
    if (allocation) {
      // Another object around the same memory: who still holds the freed one must not meet this.
      allocation = std::make_shared<Allocation>(std::move(*allocation));
    } else {
      allocation = build(geometry, at);
    }
    allocation->tag = options.tag;
    allocation->movable = options.movable;
    registry_.insert(allocation->begin(), allocation->size_bytes(), geometry.chunk_bytes,
                     allocation);
  } catch (...) {
    if (allocation) give_back(allocation);
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
    const std::uint64_t used_bytes = account.total() - account.cached_bytes;
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
    if (allocation->views == 0 && allocation->pins == 0) return;
    throw Error(ErrorKind::pinned, call,
                fmt::format("a {} of {:#x} lives", allocation->views > 0 ? "HostView" : "Pin",
                            to_integer(begin)));
  };
  refuse_pinned();
  if (allocation->being_freed.exchange(true)) {
    throw Error(ErrorKind::unknown_pointer, call,
                fmt::format("{:#x} is being freed already", to_integer(begin)));
  }
  try {
    refuse_pinned();  // Once more: who pins does so first, and looks for `being_freed` then.
  } catch (...) {
    allocation->being_freed = false;
    throw;
  }
  return allocation;
}

void Memory::unregister(Address begin) noexcept {
  if (told_freed_) told_freed_(begin);
  registry_.erase(registry_.find(begin)->id);
}

void Memory::free(Address begin) {
  const std::shared_ptr<Allocation> allocation = claim_for_free(begin, "vma::free");
  const MoveClaim claim = MoveClaim::take(allocation);  // A move of it ends first.
  // What began before has ended then, and what comes later sees `being_freed`. Not held for the
  // wait below: scopes and hooks may end meanwhile, perhaps on the thread that the work waits for.
  { const MutexLock lock(allocation->operations()); }
  try {
    contexts_.drain();
  } catch (...) {
    allocation->being_freed = false;
    throw;
  }
  unregister(begin);
  give_back(allocation);
}

void Memory::free_async(Address begin, BoundStream stream) {
  const auto pending = std::make_shared<PendingFree>();
  pending->stream = stream;
  pending->allocation = claim_for_free(begin, "vma::free_async");
  const auto ready = [this, pending] {
    bool done = pending->unregistered;
    try {
      done = done && driver_.query_event(pending->event);
    } catch (const std::exception& error) {  // The context is broken: nothing of it runs any more.
      log(LogLevel::warn, "an event that free_async waits for failed: {}", error.what());
    }
    if (!done) return false;
    if (!pending->claim) pending->claim = MoveClaim::try_take(pending->allocation);
    return pending->claim && pending->allocation->operations().is_free();
  };
  try {
    if (driver_.is_capturing(stream)) {
      throw Error(ErrorKind::invalid_argument, "vma::free_async", "the stream captures");
    }
    pending->event = contexts_.take_event(stream.context);
    driver_.record(pending->event, stream);
    lane_.post_when(ready, [this, pending] {
      contexts_.give_back(pending->stream.context, pending->event);
      give_back(pending->allocation);
    });
  } catch (...) {
    if (!is_none(pending->event)) contexts_.give_back(stream.context, pending->event);
    pending->allocation->being_freed = false;
    throw;
  }
  unregister(begin);
  pending->unregistered = true;
}

void Memory::give_back(const std::shared_ptr<Allocation>& allocation) noexcept {
  if (allocation->reusable()) {
    const Location at = allocation->home(0);
    if (cache_.put_allocation(at, allocation)) return keep_or_release(at);
  }
  for (std::size_t slot = 0; slot < allocation->geometry().slots; ++slot) {
    retire(allocation->take_out(slot));
  }
}

// --- Chunks

Chunk Memory::obtain_cached(Location at, std::uint64_t size_bytes) {
  Chunk chunk = cache_.take(at, size_bytes);
  if (chunk) return chunk;
  const std::shared_ptr<Allocation> freed = cache_.take_allocation_with(at, size_bytes);
  if (!freed) return chunk;
  for (std::size_t slot = 0; slot < freed->geometry().slots; ++slot) {
    Chunk part = freed->take_out(slot);
    if (!chunk && part && part.size_bytes() == size_bytes) {
      chunk = std::move(part);
    } else {
      retire(std::move(part));
    }
  }
  return chunk;
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
  if (!chunk) return;
  if (chunk.busy()) return quarantine(std::move(chunk), "work that failed may still touch it");
  const Location at = chunk.at();
  if (cache_.put(std::move(chunk))) return keep_or_release(at);
  quarantine(std::move(chunk), "there is no memory to keep track of it");
}

void Memory::quarantine(Chunk chunk, const char* reason) noexcept {
  const Location at = chunk.at();
  ledger_.leaked("{} bytes at {}: {}", chunk.size_bytes(), to_string(at), reason);
  ledger_.shift(at, chunk.size_bytes(), Ledger::Use::allocated, Ledger::Use::leaked);
  try {
    const MutexLock lock(quarantine_mutex_);
    quarantine_.push_back(std::move(chunk));
  } catch (const std::exception&) {
    chunk.abandon();
  }
}

void Memory::keep_or_release(Location at) noexcept {
  if (!cache_.over_budget(at)) return;
  try {
    lane_.post([this, at] { release_in_turn(cache_.take_surplus(at)); });
  } catch (const std::exception& error) {  // The next one that is over the budget takes it along.
    log(LogLevel::warn, "what is over the cache's budget stays for now: {}", error.what());
  }
}

void Memory::release_in_turn(ChunkCache::Surplus surplus) noexcept {
  for (const std::shared_ptr<Allocation>& allocation : surplus.allocations) release(*allocation);
  for (Chunk& chunk : surplus.chunks) release(std::move(chunk));
}

void Memory::release(Allocation& allocation) noexcept {
  for (std::size_t slot = 0; slot < allocation.geometry().slots; ++slot) {
    release(allocation.take_out(slot));
  }
}

void Memory::release(Chunk chunk) noexcept {
  if (!chunk) return;
  const Location at = chunk.at();
  chunk.release();
  ledger_.unclaim(at, chunk.size_bytes(), Ledger::Use::allocated);
}

void Memory::make_ahead(Location at, std::uint64_t size_bytes) noexcept {
  constexpr std::size_t chunks_ahead = 2;
  const auto wanted = [this, at, size_bytes] {
    return cache_.count(at, size_bytes) < chunks_ahead &&
           cache_.cached_bytes(at) + size_bytes <= cache_.budget_bytes(at);
  };
  if (!wanted()) return;
  const auto make = [this, at, size_bytes, wanted] {
    try {
      while (wanted()) keep(create(at, size_bytes, "vma::alloc"));
    } catch (const std::exception& error) {
      log(LogLevel::debug, "no host chunk was made ahead of need: {}", error.what());
    }
  };
  try {
    lane_.post(make);
  } catch (const std::exception& error) {
    log(LogLevel::debug, "no host chunk is made ahead of need: {}", error.what());
  }
}

/// Throws: std::bad_alloc where the cache has no memory to keep track of it; it is released then.
void Memory::keep(Chunk chunk) {
  if (cache_.put(std::move(chunk))) return;
  release(std::move(chunk));
  throw std::bad_alloc();
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
    Chunk chunk = create_to_keep(at, wanted);
    cache_.reserve_budget(at, wanted, made + 1);
    keep(std::move(chunk));
  }
}

/// In place of what the cache holds of other sizes where there is no room beside that.
Chunk Memory::create_to_keep(Location at, std::uint64_t size_bytes) {
  constexpr const char* call = "vma::reserve";
  try {
    return create(at, size_bytes, call);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
  }
  release_in_turn(cache_.take_others(at, size_bytes));
  return create(at, size_bytes, call);
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
  std::map<Location, std::uint64_t> kept_aside;
  {
    const MutexLock lock(quarantine_mutex_);
    for (const Chunk& chunk : quarantine_) kept_aside[chunk.at()] += chunk.size_bytes();
  }
  for (const Location at : topology_.locations()) {
    const Ledger::Account account = ledger_.account(at);
    VMART_CHECK(account.allocated_bytes == held[at], "what is booked is what allocations hold");
    VMART_CHECK(account.cached_bytes == cache_.cached_bytes(at), "and what the cache holds");
    VMART_CHECK(account.leaked_bytes >= kept_aside[at], "what is kept aside counts as leaked");
    VMART_CHECK(account.total() <= account.capacity_bytes, "nobody takes more than the capacity");
  }
}

void Memory::shut_down() noexcept {
  lane_.stop();
  for (const Location at : topology_.locations()) release_in_turn(cache_.take_all(at));
  while (const std::shared_ptr<Allocation> allocation = registry_.erase_any()) {
    release(*allocation);
    allocation->unreserve();  // A HostView may outlive the driver.
  }
  const MutexLock lock(quarantine_mutex_);
  for (Chunk& chunk : quarantine_) {
    const Location at = chunk.at();
    if (chunk.release()) ledger_.unclaim(at, chunk.size_bytes(), Ledger::Use::leaked);
  }
  quarantine_.clear();
}

}  // namespace vma
