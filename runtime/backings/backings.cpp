#include "backings/backings.hpp"

#include "memory/memory.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vma {
namespace {

constexpr const char* call = "vma::Backings";

[[noreturn]] void refuse(ErrorKind kind, const char* why) {
  throw Error(kind, call, why);
}

}  // namespace

std::shared_ptr<Backing> Backings::create(std::uint64_t size_bytes, Place at,
                                          const ExportTypes& needs, const std::string& tag,
                                          bool make_room, const std::string& site) {
  memory_.topology().require(at, call);
  auto backing = std::make_shared<Backing>();
  backing->geometry = plan_exact_geometry(size_bytes, at, memory_.topology().granularity());
  backing->at = at;
  backing->needs = needs;
  backing->tag = tag;
  backing->site = site;
  {
    const MutexLock lock(mutex_);
    backings_.insert(backing);
  }
  try {
    std::vector<Chunk> chunks = memory_.obtain(backing->geometry, at, needs, make_room);
    const MutexLock lock(backing->mutex);
    backing->chunks = std::move(chunks);
  } catch (...) {
    const MutexLock lock(mutex_);
    backings_.erase(backing);
    throw;
  }
  return backing;
}

/// A chunk for each slot that has none it could show.
void Backings::complete(Backing& backing) {
  backing.chunks.resize(backing.geometry.slots);
  for (std::size_t slot = 0; slot < backing.chunks.size(); ++slot) {
    Chunk& chunk = backing.chunks[slot];
    const std::uint64_t slot_bytes = backing.geometry.slot_bytes(slot);
    if (chunk && chunk.size_bytes() == slot_bytes && !chunk.busy()) continue;
    memory_.chunks().retire(std::move(chunk));
    chunk = memory_.chunks().obtain(backing.at, slot_bytes, ChunkStore::Turn::take, call,
                                    backing.needs);
  }
}

void Backings::map(Backing& backing, Address begin) {
  const MutexLock lock(backing.mutex);
  if (backing.released) refuse(ErrorKind::invalid_argument, "the backing was released");
  if (backing.shown) refuse(ErrorKind::invalid_argument, "the backing is mapped already");
  if (to_integer(begin) % memory_.topology().granularity() != 0) {
    throw Error(ErrorKind::invalid_argument, call,
                fmt::format("{:#x} is not a multiple of {}", to_integer(begin),
                            memory_.topology().granularity()));
  }
  complete(backing);
  AllocOptions options;
  options.tag = backing.tag;
  options.site = backing.site;
  options.movable = !backing.shared;
  AllocTerms terms;
  terms.wanted = backing.at;
  terms.export_needs = backing.needs;
  backing.shown = memory_.show_at(begin, backing.geometry, backing.chunks, options, terms);
}

void Backings::unmap(Backing& backing) {
  const MutexLock lock(backing.mutex);
  if (!backing.shown) refuse(ErrorKind::invalid_argument, "the backing is not mapped");
  backing.chunks = memory_.withdraw(backing.shown->begin());
  backing.shown.reset();
}

void Backings::share(Backing& backing) {
  const MutexLock lock(backing.mutex);
  if (backing.geometry.slots != 1) {
    refuse(ErrorKind::unsupported, "the backing has several chunks, and so several handles");
  }
  if (backing.shown) {
    Allocation& allocation = *backing.shown;
    {
      const MutexLock operations(allocation.operations());
      if (!allocation.at_one_place() || allocation.place(0) != backing.at)
        refuse(ErrorKind::busy, "the backing does not lie where it was asked for");
      allocation.exported = true;
      allocation.share();
    }
    memory_.chunks().drop_copies(allocation);
    memory_.tell_changed(allocation);
  } else {
    complete(backing);
    if (backing.chunks[0].at() != backing.at)
      refuse(ErrorKind::busy, "the backing does not lie where it was asked for");
    backing.chunks[0].mark_shared();
  }
  backing.shared = true;
}

void Backings::release(Backing& backing) {
  {
    const MutexLock lock(backing.mutex);
    if (backing.shown) refuse(ErrorKind::invalid_argument, "the backing is mapped");
    backing.released = true;
    for (Chunk& chunk : backing.chunks) memory_.chunks().retire(std::move(chunk));
    backing.chunks.clear();
  }
  const MutexLock lock(mutex_);
  std::erase_if(backings_, [&](const auto& known) { return known.get() == &backing; });
}

std::uint64_t Backings::size_bytes() const {
  std::uint64_t sum = 0;
  const MutexLock lock(mutex_);
  for (const auto& backing : backings_) sum += backing->geometry.size_bytes();
  return sum;
}

std::map<Place, std::uint64_t> Backings::unmapped_bytes() const {
  std::map<Place, std::uint64_t> held;
  std::set<std::shared_ptr<Backing>> all;
  {
    const MutexLock lock(mutex_);
    all = backings_;
  }
  for (const auto& backing : all) {
    const MutexLock lock(backing->mutex);
    for (const Chunk& chunk : backing->chunks) {
      if (chunk) held[chunk.at()] += chunk.size_bytes();
    }
  }
  return held;
}

void Backings::release() noexcept {
  std::set<std::shared_ptr<Backing>> all;
  {
    const MutexLock lock(mutex_);
    all.swap(backings_);
  }
  for (const auto& backing : all) {
    const MutexLock lock(backing->mutex);
    backing->shown.reset();  // Its memory goes with all other allocations.
    backing->released = true;
    for (Chunk& chunk : backing->chunks) memory_.chunks().retire(std::move(chunk));
    backing->chunks.clear();
  }
}

}  // namespace vma
