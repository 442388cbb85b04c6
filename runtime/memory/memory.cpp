#include "memory/memory.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/mapping_limit.hpp"
#include "base/printable.hpp"
#include "driver/native_codes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <utility>

namespace vma {
namespace {

/// What `free_after` gives back later.
struct PendingFree {
  std::shared_ptr<Allocation> allocation;
  std::vector<WorkMark> marks;
  std::atomic<bool> unregistered{false};
  MoveClaim claim{};  // Keeps moves away.
};

ExportTypes export_needs(const AllocOptions& options) {
  return {.descriptor = options.exportable};
}

/// Records again if a capture that began and ended meanwhile has taken the event.
void record_again(Driver& driver, const WorkMark& mark) noexcept {
  try {
    if (!driver.is_capturing(mark.stream)) driver.record(mark.event, mark.stream);
  } catch (const std::exception& error) {
    log(LogLevel::debug, "free_async cannot find out when its stream's work ends: {}",
        error.what());
  }
}

}  // namespace

Memory::Memory(Driver& driver, const Topology& topology, const MemoryLimits& limits)
    : driver_(driver),
      topology_(topology),
      chunks_(driver, topology, limits),
      registry_(topology.granularity()),
      contexts_(driver, topology, chunks_.ledger()),
      pressure_(driver.clock(), limits.pressure_limit) {}

Memory::~Memory() {
  release();
}

void Memory::watch(MemoryWatcher* watcher) {
  const auto borrowed = [](MemoryWatcher*) {};
  watcher_.set(watcher == nullptr ? nullptr : std::shared_ptr<MemoryWatcher>(watcher, borrowed));
}

void Memory::tell_changed(const Allocation& allocation) noexcept {
  watcher_.tell([&](MemoryWatcher& watcher) { watcher.changed(allocation); });
}

// --- Allocations

std::shared_ptr<Allocation> Memory::alloc(std::uint64_t size_bytes, Place at,
                                          const AllocOptions& options, const AllocTerms& terms) {
  topology_.require(at, "vma::alloc");
  const std::size_t gpus = topology_.devices().size();
  return alloc(plan_geometry(size_bytes, options, at, topology_.granularity(), gpus), at, options,
               terms);
}

std::shared_ptr<Allocation> Memory::alloc(const Geometry& geometry, Place at,
                                          const AllocOptions& options, const AllocTerms& terms) {
  topology_.require(at, "vma::alloc");
  const ExportTypes types = chunks_.export_terms().given(at, export_needs(options));
  if (const auto freed = chunks_.cache().take_allocation(at, geometry, types)) {
    std::shared_ptr<Allocation> allocation;
    try {
      // A new object around the same memory, so that holders of the freed one cannot confuse the
      // two.
      allocation = std::make_shared<Allocation>(std::move(*freed));
    } catch (...) {
      chunks_.take_back(freed);
      throw;
    }
    return enter(std::move(allocation), options, terms);
  }
  return naming_mapping_limit("vma::alloc", [&] {
    const std::vector<Place> homes(geometry.slots, at);
    return enter(build(geometry, homes, export_needs(options)), options, terms);
  });
}

std::shared_ptr<Allocation> Memory::alloc(const Geometry& geometry, std::span<const Place> homes,
                                          const AllocOptions& options, const AllocTerms& terms) {
  if (homes.size() != geometry.slots) {
    throw Error(ErrorKind::invalid_argument, "vma::alloc",
                fmt::format("{} homes for {} chunks", homes.size(), geometry.slots));
  }
  const bool one_place = std::ranges::all_of(homes, [&](Place at) { return at == homes[0]; });
  if (one_place) return alloc(geometry, homes[0], options, terms);
  for (const Place at : homes) topology_.require(at, "vma::alloc");
  return naming_mapping_limit("vma::alloc", [&] {
    return enter(build(geometry, homes, export_needs(options)), options, terms);
  });
}

/// Fills the allocation, then registers it: from there on it is found by its address and by threads
/// that walk all allocations. If any of that fails, the memory is given back.
std::shared_ptr<Allocation> Memory::enter(std::shared_ptr<Allocation> allocation,
                                          const AllocOptions& options, const AllocTerms& terms) {
  try {
    allocation->tag = options.tag;
    allocation->site = options.site;
    allocation->movable = options.movable;
    allocation->shared_atomics = options.shared_atomics;
    allocation->export_needs = export_needs(options) | terms.export_needs;
    allocation->readers = terms.readers;
    for (std::size_t slot = 0; slot < allocation->geometry().slots; ++slot) {
      allocation->note_wanted(slot, terms.wanted.value_or(allocation->place(slot)));
    }
    allocation->cpu = options.cpu_access;
    if (options.cpu_access == CpuAccess::fault)
      allocation->grant_cpu(0, allocation->geometry().slots);
    if (terms.fill) terms.fill(*allocation);  // The last step that other threads must not see.
    allocation->placed_at = driver_.clock().now();
    allocation->sequence = ++entered_;
    registry_.insert(allocation->begin(), allocation->size_bytes(),
                     allocation->geometry().chunk_bytes, allocation);
  } catch (...) {
    chunks_.take_back(allocation);
    throw;
  }
  // No policy decides about memory of another process, whose room is not that of this one.
  if (!allocation->imported())
    watcher_.tell([&](MemoryWatcher& watcher) { watcher.made(allocation); });
  return allocation;
}

std::shared_ptr<Allocation> Memory::build(const Geometry& geometry, std::span<const Place> homes,
                                          const ExportTypes& needs) {
  return build(geometry, obtain_all(geometry, homes, needs));
}

std::shared_ptr<Allocation> Memory::build(const Geometry& geometry, std::vector<Chunk> chunks) {
  try {
    auto allocation = std::make_shared<Allocation>(
        driver_, chunks_.ledger(), Reservation(driver_, chunks_.ledger(), geometry.size_bytes()),
        geometry);
    show(*allocation, chunks);
    return allocation;
  } catch (...) {
    for (Chunk& chunk : chunks) chunks_.retire(std::move(chunk));
    throw;
  }
}

/// The first grant of a handle is slow: not beside a stop, which has the turn.
void Memory::show(Allocation& allocation, std::vector<Chunk>& chunks) {
  std::optional<MutexLock> slow_work;
  if (!std::ranges::all_of(chunks, &Chunk::was_granted)) {
    slow_work.emplace(chunks_.slow_calls().turn());
  }
  try {
    allocation.show_all(chunks, topology_);
  } catch (const Error& error) {
    // Page tables need memory too: release what is held back for them and retry once.
    const bool whole = chunks.size() == allocation.geometry().slots;
    if (error.kind() != ErrorKind::out_of_memory || !whole || !chunks_.keepers().give_up_spares())
      throw;
    allocation.show_all(chunks, topology_);
  }
}

std::shared_ptr<Allocation> Memory::show_at(Address begin, const Geometry& geometry,
                                            std::vector<Chunk>& chunks, const AllocOptions& options,
                                            const AllocTerms& terms) {
  return naming_mapping_limit("vma::Backings", [&] {
    auto allocation = std::make_shared<Allocation>(
        driver_, chunks_.ledger(), Reservation::lent(begin, geometry.size_bytes()), geometry);
    show(*allocation, chunks);
    return enter(std::move(allocation), options, terms);
  });
}

std::vector<Chunk> Memory::withdraw(Address begin) {
  const std::shared_ptr<Allocation> allocation = claim_for_free(begin, "vma::Backings");
  const MoveClaim moves = MoveClaim::take(allocation);  // As in `free`.
  { const MutexLock others(allocation->operations()); }
  std::vector<Chunk> chunks(allocation->geometry().slots);
  unregister(begin);
  chunks_.drop_copies(*allocation);
  for (std::size_t slot = 0; slot < chunks.size(); ++slot)
    chunks[slot] = allocation->take_out(slot);
  return chunks;
}

std::vector<Chunk> Memory::obtain(const Geometry& geometry, Place at, const ExportTypes& needs,
                                  bool make_room) {
  topology_.require(at, "vma::Backings");
  const std::vector<Place> homes(geometry.slots, at);
  return obtain_all(geometry, homes, needs, make_room);
}

std::shared_ptr<Allocation> Memory::import(const Geometry& geometry, std::vector<Chunk> chunks,
                                           const ImportTerms& terms) {
  return naming_mapping_limit("vma::import_allocation", [&] {
    std::shared_ptr<Allocation> allocation = build(geometry, std::move(chunks));
    AllocOptions options;
    try {
      allocation->imported_from = terms.from;
      allocation->import_lease = terms.lease;
      options.tag = terms.tag;
      options.movable = false;
    } catch (...) {
      chunks_.take_back(allocation);
      throw;
    }
    return enter(std::move(allocation), options, {});
  });
}

/// One chunk a slot, each at its home. The presser is called without the turn: meanwhile only the
/// chunks already obtained are kept.
std::vector<Chunk> Memory::obtain_all(const Geometry& geometry, std::span<const Place> homes,
                                      const ExportTypes& needs, bool make_room) {
  using enum MemoryPressure::Want::Asks;
  MemoryPressure::Want want(pressure_, make_room ? an_allocation : never);
  std::map<Place, std::uint64_t> need_bytes;
  for (std::size_t slot = 0; slot < homes.size(); ++slot) {
    need_bytes[homes[slot]] += geometry.slot_bytes(slot);
  }
  for (const auto& [at, bytes] : need_bytes) {
    with_room(want, at, bytes, [&, at = at, size_bytes = bytes] {
      chunks_.require_room(at, size_bytes, "vma::alloc");
    });
  }
  std::vector<Chunk> chunks;
  try {
    chunks.reserve(geometry.slots);
    for (std::size_t slot = 0; slot < homes.size(); ++slot) {
      const Place at = homes[slot];
      const std::uint64_t slot_bytes = geometry.slot_bytes(slot);
      chunks.push_back(with_room(want, at, need_bytes[at], [&] {
        return chunks_.obtain(at, slot_bytes, ChunkStore::Turn::take, "vma::alloc", needs);
      }));
      need_bytes[at] -= slot_bytes;
    }
  } catch (...) {
    for (Chunk& chunk : chunks) chunks_.retire(std::move(chunk));
    throw;
  }
  return chunks;
}

/// Adds the largest allocations at a full place to the error, to help decide what to free.
Error Memory::with_holders(const Error& error, Place at) const {
  constexpr std::size_t holders_max = 5;
  struct Holder {
    std::uint64_t size_bytes = 0;
    std::shared_ptr<Allocation> allocation;
  };
  std::vector<Holder> holders;
  for (std::shared_ptr<Allocation>& allocation : registry_.all()) {
    std::uint64_t bytes = 0;
    for (const Extent& extent : allocation->extents()) {
      if (extent.at == at && !extent.dropped) bytes += extent.bytes;
    }
    if (bytes > 0) holders.push_back({bytes, std::move(allocation)});
  }
  const auto larger = [](const Holder& a, const Holder& b) { return a.size_bytes > b.size_bytes; };
  const std::size_t named = std::min(holders_max, holders.size());
  std::partial_sort(holders.begin(), holders.begin() + static_cast<std::ptrdiff_t>(named),
                    holders.end(), larger);
  const std::string prefix = fmt::format("{}: {}: ", error.call(), to_string(error.kind()));
  std::string detail = std::string(error.what()).substr(prefix.size());
  detail += fmt::format("; allocations at {}: {}", to_string(at), holders.empty() ? "none" : "");
  for (std::size_t i = 0; i < named; ++i) {
    const Allocation& holder = *holders[i].allocation;
    const std::string name = holder.tag.empty() ? fmt::format("{:#x}", to_integer(holder.begin()))
                                                : '"' + holder.tag + '"';
    detail += fmt::format("{}{} {}{}", i > 0 ? ", " : "", name, bytes_text(holders[i].size_bytes),
                          holder.may_move() ? "" : " (pinned)");
  }
  if (named < holders.size()) detail += fmt::format(", and {} more", holders.size() - named);
  return Error(error.kind(), error.call(), detail, error.native());
}

std::shared_ptr<Allocation> Memory::require_around(const void* pointer, const char* call) const {
  std::shared_ptr<Allocation> allocation = registry_.hold(address_of(pointer));
  if (allocation) return allocation;
  throw Error(ErrorKind::unknown_pointer, call,
              fmt::format("{} is not in an allocation of this runtime", fmt::ptr(pointer)));
}

std::shared_ptr<Allocation> Memory::require(const void* pointer, const char* call) const {
  std::shared_ptr<Allocation> allocation = require_around(pointer, call);
  if (allocation->begin() == address_of(pointer)) return allocation;
  throw Error(ErrorKind::unknown_pointer, call,
              fmt::format("{} is inside an allocation that starts at {:#x}; pass its start",
                          fmt::ptr(pointer), to_integer(allocation->begin())));
}

std::shared_ptr<Allocation> Memory::claim_for_free(Address begin, const char* call) {
  std::shared_ptr<Allocation> allocation = require(to_pointer(begin), call);
  const auto refuse_pinned = [&] {
    if (allocation->views == 0 && allocation->pins == 0 && allocation->exports == 0) return;
    throw Error(ErrorKind::pinned, call,
                fmt::format("a {} of {:#x} still exists; destroy it first",
                            allocation->views > 0  ? "HostView"
                            : allocation->pins > 0 ? "Pin"
                                                   : "vma::ExportedAllocation",
                            to_integer(begin)));
  };
  refuse_pinned();
  if (allocation->being_freed.exchange(true)) {
    throw Error(ErrorKind::unknown_pointer, call,
                fmt::format("{:#x} is already being freed", to_integer(begin)));
  }
  try {
    refuse_pinned();  // Check again: a pin is counted first and looks for `being_freed` afterwards.
  } catch (...) {
    allocation->being_freed = false;
    throw;
  }
  return allocation;
}

void Memory::unregister(Address begin) noexcept {
  if (told_freed_) told_freed_(begin);
  watcher_.tell([begin](MemoryWatcher& watcher) { watcher.freed(begin); });
  registry_.erase(registry_.find(begin)->id);
}

std::vector<ContextHandle> Memory::free(Address begin, bool awaits_work) {
  const std::shared_ptr<Allocation> allocation = claim_for_free(begin, "vma::free");
  const MoveClaim claim = MoveClaim::take(allocation);  // Waits for a running move to end.
  // After this, earlier calls have ended, and later ones see `being_freed`. Not held for the wait
  // below: scopes and hooks may end meanwhile, perhaps on the thread that the work waits for.
  { const MutexLock lock(allocation->operations()); }
  std::vector<ContextHandle> waited;
  try {
    if (awaits_work) waited = contexts_.await_work();
  } catch (...) {
    allocation->being_freed = false;
    throw;
  }
  unregister(begin);
  chunks_.take_back(allocation);
  return waited;
}

void Memory::free_idle(Address begin) {
  const std::shared_ptr<Allocation> allocation = claim_for_free(begin, "vma::free");
  const MoveClaim claim = MoveClaim::try_take(allocation);
  // Earlier calls must have ended, as in `free`. The caller may hold the turn for slow calls, which
  // they wait for.
  if (!claim || !allocation->operations().is_free()) {
    allocation->being_freed = false;
    throw Error(
        ErrorKind::busy, "vma::free",
        fmt::format("{:#x} {}", to_integer(begin), claim ? "is in use by a call" : "moves"));
  }
  unregister(begin);
  chunks_.take_back(allocation);
}

void Memory::free_async(Address begin, BoundStream stream) {
  require(to_pointer(begin), "vma::free_async");
  std::vector<WorkMark> marks{mark(stream, "vma::free_async")};
  try {
    free_after(begin, marks);
  } catch (...) {
    give_back(marks.front());
    throw;
  }
}

void Memory::free_after(Address begin, std::vector<WorkMark>& marks) {
  const auto pending = std::make_shared<PendingFree>();
  pending->allocation = claim_for_free(begin, "vma::free_async");
  const auto ready = [this, pending] {
    const auto ended = [this](WorkMark& mark) { return has_ended(mark); };
    if (!pending->unregistered || !std::ranges::all_of(pending->marks, ended)) return false;
    if (!pending->claim) pending->claim = MoveClaim::try_take(pending->allocation);
    return pending->claim && pending->allocation->operations().is_free();
  };
  pending->marks.swap(marks);
  try {
    chunks_.slow_calls().post_when(ready, [this, pending] {
      for (const WorkMark& mark : pending->marks) give_back(mark);
      chunks_.take_back(pending->allocation);
    });
  } catch (...) {
    pending->marks.swap(marks);
    pending->allocation->being_freed = false;
    throw;
  }
  unregister(begin);
  pending->unregistered = true;
}

WorkMark Memory::mark(BoundStream stream, const char* call) {
  const auto refuse_capture = [&] {
    if (!driver_.is_capturing(stream)) return;
    throw Error(ErrorKind::invalid_argument, call,
                "the stream is capturing; free after the capture ends");
  };
  refuse_capture();
  const WorkMark mark{contexts_.take_event(stream.context), stream};
  try {
    driver_.record(mark.event, stream);
    // A capture that began in between has taken the event, and querying it would invalidate the
    // capture.
    refuse_capture();
  } catch (...) {
    give_back(mark);
    throw;
  }
  return mark;
}

/// An error of the event proves that the work has ended only if its context is broken or destroyed;
/// after any other error the query is repeated later.
bool Memory::has_ended(WorkMark& mark) noexcept {
  try {
    return driver_.query_event(mark.event);
  } catch (const Error& error) {
    const bool destroyed =
        error.native() == native_invalid_context || error.native() == native_invalid_handle;
    if (!destroyed && !std::exchange(mark.warned, true))
      log(LogLevel::warn, "an event that free_async waits for failed: {}", error.what());
    if (error.native() == native_captured_event) record_again(driver_, mark);
    return destroyed || context_is_broken(error.native());
  } catch (const std::exception&) {  // The exception may come from formatting.
    return false;
  }
}

void Memory::give_back(const WorkMark& mark) noexcept {
  contexts_.give_back(mark.stream.context, mark.event);
}

// --- The whole

void Memory::check_invariants(std::map<Place, std::uint64_t> held) {
  registry_.check_invariants();
  for (const std::shared_ptr<Allocation>& allocation : registry_.all()) {
    if (allocation->imported()) continue;  // Booked by the process that exports it.
    for (const Extent& extent : allocation->extents()) {
      if (!extent.dropped) held[extent.at] += extent.bytes;
    }
  }
  chunks_.check_invariants(held);
}

void Memory::release() noexcept {
  chunks_.stop();
  while (const std::shared_ptr<Allocation> allocation = registry_.erase_any()) {
    chunks_.release(*allocation);
    allocation->unreserve();  // A HostView may outlive the driver.
  }
  chunks_.release_quarantine();
}

}  // namespace vma
