#include "memory/allocation.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "memory/chunk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace vma {

Allocation::Allocation(Driver& driver, Ledger& ledger, Reservation reservation,
                       const Geometry& geometry)
    : driver_(driver), ledger_(ledger), reservation_(std::move(reservation)), geometry_(geometry) {
  VMART_CHECK(geometry.slots > 0 && geometry.tail_bytes <= geometry.chunk_bytes,
              "an allocation has at least one slot, and the last is not longer than the others");
  VMART_CHECK(reservation_.size_bytes() == geometry.size_bytes(),
              "the reservation covers exactly the slots");
  slots_.resize(geometry.slots);
}

Allocation::Allocation(Allocation&& freed) noexcept
    : std::enable_shared_from_this<Allocation>(),
      driver_(freed.driver_),
      ledger_(freed.ledger_),
      reservation_(std::move(freed.reservation_)),
      geometry_(freed.geometry_) {
  const MutexLock lock(freed.slots_mutex_);
  slots_.swap(freed.slots_);
}

Allocation::~Allocation() {
  for (std::size_t slot = 0; slot < geometry_.slots; ++slot) take_out(slot);
}

void Allocation::show_all(std::vector<Chunk>& chunks, const Topology& topology) {
  VMART_CHECK(chunks.size() == slots_.size(), "one chunk per slot");
  std::size_t mapped = 0;
  try {
    for (; mapped < slots_.size(); ++mapped) {
      const std::uint64_t bytes = geometry_.slot_bytes(mapped);
      VMART_CHECK(chunks[mapped].size_bytes() == bytes,
                  "a chunk maps whole, so it has the slot's size");
      driver_.map(slot_begin(mapped), bytes, chunks[mapped].handle());
    }
    for (std::size_t slot = 0; slot < slots_.size();) {
      const Place at = chunks[slot].at();
      const Address run_begin = slot_begin(slot);
      std::uint64_t run_bytes = 0;
      while (slot < slots_.size() && chunks[slot].at() == at) {
        run_bytes += geometry_.slot_bytes(slot++);
      }
      driver_.grant(run_begin, run_bytes, topology.readers(at));
      verify_access(driver_, run_begin, run_bytes, topology.readers(at));
    }
  } catch (...) {
    // Through the slots, so that one that cannot be unmapped is counted and kept out of the cache.
    for (std::size_t slot = 0; slot < mapped; ++slot) {
      slots_[slot].chunk = std::move(chunks[slot]);
      slots_[slot].mapped = true;
      chunks[slot] = take_out(slot);
    }
    std::erase_if(chunks, [](const Chunk& chunk) { return !chunk; });
    throw;
  }
  const MutexLock lock(slots_mutex_);
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    slots_[slot].chunk = std::move(chunks[slot]);
    slots_[slot].chunk.mark_shown();
    slots_[slot].mapped = true;
  }
  chunks.clear();
}

Chunk Allocation::take_out(std::size_t slot) noexcept {
  const MutexLock rights(access_mutex_);  // No grant of it is in progress.
  const MutexLock lock(slots_mutex_);
  if (slot >= slots_.size()) return Chunk();
  Slot& shown = slots_[slot];
  if (shown.mapped) {
    shown.mapped = false;
    shown.cpu = Access::none;
    // A read, write or fill that cannot be waited for may use the slot's own addresses. Those that
    // the program has lent are its own to unmap.
    if (shown.chunk.busy() && !shown.chunk.has_staging() && !reservation_.is_lent()) {
      keep_behind(slot, "work that failed may still touch it there");
      return Chunk();
    }
    try {
      driver_.unmap(slot_begin(slot), geometry_.slot_bytes(slot));
    } catch (const std::exception& error) {
      keep_behind(slot, error.what());
    }
  }
  return std::move(shown.chunk);
}

/// The memory of a slot that cannot be unmapped lives on there; it is never used again.
void Allocation::keep_behind(std::size_t slot, const char* reason) noexcept {
  reservation_.abandon();
  ledger_.leaked("{} bytes behind {:#x}: {}", geometry_.slot_bytes(slot),
                 to_integer(slot_begin(slot)), reason);
  Chunk& chunk = slots_[slot].chunk;
  if (!chunk) return;
  const Place at = chunk.at();
  const std::uint64_t size_bytes = chunk.size_bytes();
  const bool booked = !chunk.imported();
  if (chunk.release()) ledger_.leak_bytes(at, size_bytes);
  if (booked) ledger_.unclaim(at, size_bytes, Ledger::Use::allocated);
}

bool Allocation::has_chunk(std::size_t slot) const {
  const MutexLock lock(slots_mutex_);
  return slot < slots_.size() && slots_[slot].chunk;
}

Address Allocation::bytes_at(std::size_t slot) const {
  const MutexLock lock(slots_mutex_);
  const Slot& shown = slots_[slot];
  if (shown.chunk.has_staging()) return shown.chunk.staging();
  return shown.mapped && !shown.dark ? slot_begin(slot) : Address{};
}

Place Allocation::place(std::size_t slot) const {
  const MutexLock lock(slots_mutex_);
  return slot < slots_.size() ? slots_[slot].at() : Place();
}

Place Allocation::wanted(std::size_t slot) const {
  const MutexLock lock(slots_mutex_);
  return slot < slots_.size() ? slots_[slot].wanted : Place();
}

void Allocation::note_wanted(std::size_t slot, Place at) {
  const MutexLock lock(slots_mutex_);
  if (slot < slots_.size()) slots_[slot].wanted = at;
}

void Allocation::note_wanted_there(std::size_t first, std::size_t end, Place at) noexcept {
  for (std::size_t slot = first; slot < end; ++slot) {
    if (place(slot) == at) note_wanted(slot, at);
  }
}

std::uint64_t Allocation::generation(std::size_t slot) const {
  const MutexLock lock(slots_mutex_);
  return slot < slots_.size() ? slots_[slot].generation : 0;
}

Chunk Allocation::replace(std::size_t slot, Chunk target) {
  const MutexLock lock(slots_mutex_);
  Slot& shown = slots_[slot];
  VMART_CHECK(shown.mapped && target.size_bytes() == shown.chunk.size_bytes(),
              "a chunk replaces one of the same size");
  ++shown.generation;
  return std::exchange(shown.chunk, std::move(target));
}

// --- Dropped contents

Chunk Allocation::drop(std::size_t slot) {
  VMART_CHECK(!dropped(slot) && !poisoned(), "only a slot with contents is dropped");
  driver_.unmap(slot_begin(slot), geometry_.slot_bytes(slot));
  const MutexLock lock(slots_mutex_);
  Slot& shown = slots_[slot];
  shown.dropped_from = shown.chunk.at();
  shown.mapped = false;
  shown.cpu = Access::none;
  return std::move(shown.chunk);
}

void Allocation::restore(std::size_t first, std::span<Chunk> chunks, const Grant& grant) {
  std::size_t mapped = 0;
  std::uint64_t size_bytes = 0;
  try {
    for (; mapped < chunks.size(); ++mapped) {
      const Chunk& chunk = chunks[mapped];
      VMART_CHECK(
          dropped(first + mapped) && chunk.size_bytes() == geometry_.slot_bytes(first + mapped),
          "a dropped slot gets a chunk of the same size");
      driver_.map(slot_begin(first + mapped), chunk.size_bytes(), chunk.handle());
      size_bytes += chunk.size_bytes();
    }
    grant(slot_begin(first), size_bytes);
  } catch (...) {
    hide_again(first, chunks.first(mapped));
    throw;
  }
  const MutexLock lock(slots_mutex_);
  for (std::size_t i = 0; i < chunks.size(); ++i) take_in(slots_[first + i], chunks[i]);
}

/// Those of dropped slots. What the driver keeps refusing to unmap, or what a fill may still be
/// writing to, stays there for good.
void Allocation::hide_again(std::size_t first, std::span<Chunk> chunks) noexcept {
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (!chunks[i].busy() && hide_again(first + i)) continue;
    const MutexLock lock(slots_mutex_);
    take_in(slots_[first + i], chunks[i]);
    slots_[first + i].dark = true;
    poisoned_ = true;  // I4
  }
}

/// Removes a mapping that not all readers may use. False if the driver keeps refusing.
bool Allocation::hide_again(std::size_t slot) noexcept {
  constexpr int tries = 3;
  for (int attempt = 1; attempt <= tries; ++attempt) {
    try {
      driver_.unmap(slot_begin(slot), geometry_.slot_bytes(slot));
      return true;
    } catch (const std::exception& error) {
      if (attempt < tries) continue;
      log(LogLevel::error, "a slot at {:#x} can be neither granted nor unmapped: {}",
          to_integer(slot_begin(slot)), error.what());
    }
  }
  return false;
}

bool Allocation::dropped(std::size_t slot) const {
  return any_dropped(slot, slot + 1);
}

bool Allocation::any_dropped(std::size_t first, std::size_t end) const {
  const MutexLock lock(slots_mutex_);
  for (std::size_t slot = first; slot < std::min(end, slots_.size()); ++slot) {
    if (slots_[slot].dropped_from) return true;
  }
  return false;
}

std::uint64_t Allocation::dropped_bytes() const {
  std::uint64_t bytes = 0;
  const MutexLock lock(slots_mutex_);
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].dropped_from) bytes += geometry_.slot_bytes(slot);
  }
  return bytes;
}

void Allocation::poison(std::size_t slot, bool still_mapped) {
  const MutexLock lock(slots_mutex_);
  slots_[slot].mapped = still_mapped;
  slots_[slot].dark = true;
  poisoned_ = true;
}

std::vector<Extent> Allocation::extents() const {
  std::vector<Extent> extents;
  const MutexLock lock(slots_mutex_);
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    const std::size_t bytes = geometry_.slot_bytes(slot);
    const Place at = slots_[slot].at();
    const bool dropped = slots_[slot].dropped_from.has_value();
    if (!extents.empty() && extents.back().at == at && extents.back().dropped == dropped) {
      extents.back().bytes += bytes;
      extents.back().generation = std::max(extents.back().generation, slots_[slot].generation);
    } else {
      extents.push_back(
          {slot * geometry_.chunk_bytes, bytes, at, slots_[slot].generation, dropped});
    }
  }
  return extents;
}

bool Allocation::at_one_place() const {
  const MutexLock lock(slots_mutex_);
  return std::ranges::all_of(slots_, [&](const Slot& slot) {
    return slot.chunk && slot.mapped && slot.chunk.at() == slots_.front().chunk.at();
  });
}

bool Allocation::created_with(const ExportTypes& types) const {
  if (!types.any()) return true;
  const MutexLock lock(slots_mutex_);
  return std::ranges::all_of(
      slots_, [&](const Slot& slot) { return slot.chunk && slot.chunk.types().includes(types); });
}

bool Allocation::reusable() const {
  const MutexLock access_lock(access_mutex_);  // A grant may be in progress.
  if (reservation_.is_lent() || poisoned() || access_torn_ || read_only() || !at_one_place())
    return false;
  const MutexLock lock(slots_mutex_);
  return !slots_.empty() && std::ranges::none_of(slots_, [](const Slot& slot) {
    return slot.chunk.busy() || slot.chunk.shared() || slot.chunk.imported() ||
           slot.cpu != Access::none;
  });
}

// --- Who may move it

void Allocation::begin_move() {
  MutexLock lock(move_mutex_);
  move_ended_.wait(lock, [this]() VMART_REQUIRES(move_mutex_) { return !moving_; });
  moving_ = true;
}

bool Allocation::try_begin_move() {
  const MutexLock lock(move_mutex_);
  return !std::exchange(moving_, true);
}

void Allocation::end_move() noexcept {
  const MutexLock lock(move_mutex_);
  VMART_CHECK(moving_, "only the holder of a claim releases it");
  moving_ = false;
  move_ended_.notify_all();
}

bool Allocation::moving() {
  const MutexLock lock(move_mutex_);
  return moving_;
}

void Allocation::unpin() noexcept {
  const int before = pins--;
  VMART_CHECK(before > 0, "only a pinned allocation is unpinned");
}

std::string Allocation::why_pinned() const {
  if (imported())
    return "belongs to " + imported_from + ", which exports it; only that can move it";
  if (std::string why = why_kept(); !why.empty()) return why;
  if (!importers_.empty()) return importers_.why_pinned();
  return {};
}

std::string Allocation::why_kept() const {
  if (!movable && !imported()) return "was allocated with movable = false";
  if (views > 0) return "has a HostView";
  if (pins > 0) return "is pinned";
  if (exported && hooks_.empty())
    return "is exported, and no hook follows its moves; register one with vma::on_move";
  return {};
}

// --- What its users may do

void Allocation::share() noexcept {
  for (const Slot& slot : slots_) slot.chunk.mark_shared();
  ++writable_epoch_;  // What is a clean copy so far may be none soon.
}

std::vector<Accessor> Allocation::accessors(Place at, const Topology& topology) const {
  std::vector<Accessor> accessors = topology.readers(at);
  const Access most = access();
  for (Accessor& accessor : accessors) accessor.access = std::min(accessor.access, most);
  return accessors;
}

void Allocation::set_read_only(bool read_only, const Topology& topology) {
  const MutexLock lock(access_mutex_);
  if (read_only) {
    if (read_only_scopes_ == 0) {
      access_ = Access::read;
      if (const std::exception_ptr error = grant_slots(topology)) {
        ++writable_epoch_;
        access_ = Access::read_write;
        access_torn_ = grant_slots(topology) != nullptr;
        std::rethrow_exception(error);
      }
    }
    ++read_only_scopes_;
    return;
  }
  VMART_CHECK(read_only_scopes_ > 0, "only a read-only scope ends");
  if (--read_only_scopes_ > 0) return;
  ++writable_epoch_;
  access_ = Access::read_write;
  const std::exception_ptr error = grant_slots(topology);
  access_torn_ = error != nullptr;
  if (error) std::rethrow_exception(error);
}

/// The first slots in a row, at or behind `first`, that can be used, lie at one place, and are
/// wanted.
template <typename Wanted>
Allocation::Run Allocation::next_run(std::size_t first, std::size_t end, Wanted&& wanted) const {
  const MutexLock lock(slots_mutex_);
  end = std::min(end, slots_.size());
  const auto fits = [&](std::size_t slot) {
    return slots_[slot].mapped && !slots_[slot].dark && wanted(slots_[slot]);
  };
  while (first < end && !fits(first)) ++first;
  Run run{first, first, {}};
  if (first == end) return run;
  run.at = slots_[first].chunk.at();
  while (run.end < end && fits(run.end) && slots_[run.end].chunk.at() == run.at) ++run.end;
  return run;
}

std::uint64_t Allocation::bytes_of(const Run& run) const {
  return (run.end - run.first - 1) * geometry_.chunk_bytes + geometry_.slot_bytes(run.end - 1);
}

/// One grant for each run of slots at one place. Continues after a failure; returns the first
/// error.
std::exception_ptr Allocation::grant_slots(const Topology& topology) noexcept {
  std::exception_ptr first_error;
  const auto attempt = [&](auto&& body) {
    try {
      body();
    } catch (...) {
      if (!first_error) first_error = std::current_exception();
    }
  };
  attempt([&]() VMART_NO_THREAD_ANALYSIS { end_cpu(0, geometry_.slots, {}); });
  const auto any = [](const Slot&) { return true; };
  for (Run run = next_run(0, geometry_.slots, any); run.end > run.first;
       run = next_run(run.end, geometry_.slots, any)) {
    attempt([&] {
      const std::vector<Accessor> granted = accessors(run.at, topology);
      driver_.grant(slot_begin(run.first), bytes_of(run), granted);
      verify_access(driver_, slot_begin(run.first), bytes_of(run), granted);
    });
  }
  return first_error;
}

// --- The CPU's access

void Allocation::grant_cpu(std::size_t first, std::size_t end) {
  const MutexLock rights(access_mutex_);
  const auto lacks = [this](const Slot& slot) {
    return slot.chunk.at().kind == Place::Kind::host && !(slot.cpu_sure && slot.cpu == access());
  };
  for (Run run = next_run(first, end, lacks); run.end > run.first;
       run = next_run(run.end, end, lacks)) {
    set_cpu(run, access());
  }
}

void Allocation::offer_cpu(std::size_t first, std::size_t end) noexcept {
  if (cpu != CpuAccess::fault || being_freed) return;
  try {
    grant_cpu(first, end);
  } catch (const std::exception& error) {
    log(LogLevel::debug, "the CPU will fault at {:#x} again: {}", to_integer(begin()),
        error.what());
  }
}

void Allocation::revoke_cpu(std::size_t first, std::size_t end, std::optional<Place> stay_at) {
  if (cpu != CpuAccess::fault) return;
  const MutexLock rights(access_mutex_);
  end_cpu(first, end, stay_at);
}

void Allocation::end_cpu(std::size_t first, std::size_t end, std::optional<Place> stay_at) {
  const auto granted = [&](const Slot& slot) {
    return slot.cpu != Access::none && slot.chunk.at() != stay_at;
  };
  for (Run run = next_run(first, end, granted); run.end > run.first;
       run = next_run(run.end, end, granted)) {
    set_cpu(run, Access::none);
  }
}

/// Before the call of the driver, which may fail with some mappings done and others not: the most
/// of what was and what comes.
void Allocation::note_cpu(const Run& run, Access access, bool sure) noexcept {
  static std::atomic<std::uint64_t> changes{0};
  const std::uint64_t change = ++changes;
  const MutexLock lock(slots_mutex_);
  for (std::size_t slot = run.first; slot < run.end; ++slot) {
    Slot& shown = slots_[slot];
    shown.cpu = sure ? access : std::max(shown.cpu, access);
    shown.cpu_sure = sure;
    shown.cpu_change = change;
  }
}

void Allocation::set_cpu(const Run& run, Access access) {
  const Accessor processor{run.at, access};
  note_cpu(run, access, false);
  driver_.grant(slot_begin(run.first), bytes_of(run), {&processor, 1});
  note_cpu(run, access, true);
}

Access Allocation::cpu_access(std::size_t slot) const {
  const MutexLock lock(slots_mutex_);
  return slot < slots_.size() ? slots_[slot].cpu : Access::none;
}

std::uint64_t Allocation::cpu_change(std::size_t slot) const {
  const MutexLock lock(slots_mutex_);
  return slot < slots_.size() ? slots_[slot].cpu_change : 0;
}

}  // namespace vma
