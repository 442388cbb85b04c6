#include "migrate/moves/dropped_contents.hpp"

#include "base/mapping_limit.hpp"
#include "migrate/migration/migration_error.hpp"

#include <exception>
#include <utility>

namespace vma {
namespace {

constexpr const char* resume_call = "vma::resume";

}  // namespace

HeldDrop::HeldDrop(const MoveParts& parts, Allocation& allocation, SlotRange range,
                   const MigrateOptions& options)
    : parts_(parts),
      memory_(parts.memory),
      clock_(parts.memory.driver().clock()),
      allocation_(allocation),
      range_(range),
      options_(options) {}

HeldDrop::~HeldDrop() {
  give_back();
}

MigrationReport HeldDrop::run() {
  const TimePoint start = clock_.now();
  try {
    plan();
    if (!slots_.empty() && !allocation_.being_freed) {
      // The slots come back as zeros, whatever was written meanwhile: no clean copy matches that.
      memory_.chunks().drop_copies(allocation_);
      drop_held();
    }
  } catch (const Error& error) {
    finish(start);
    throw error.with_report(report_);
  }
  finish(start);
  return report_;
}

void HeldDrop::plan() {
  for (std::size_t slot = range_.first; slot < range_.end; ++slot) {
    if (allocation_.dropped(slot)) continue;
    slots_.push_back(slot);
    report_.bytes_asked += allocation_.geometry().slot_bytes(slot);
  }
  report_.chunks = static_cast<int>(slots_.size());
  chunks_.reserve(slots_.size());  // Nothing may throw between an unmap and its record.
}

void HeldDrop::drop_held() {
  if (options_.nothing_runs) {
    const MutexLock slow_work(memory_.chunks().slow_calls().turn());
    return drop_all(nullptr);
  }
  const BoundStream stream = parts_.engine.stream_of_hold(allocation_.home(slots_.front()));
  HeldTimes times;
  parts_.stops.hold_while(stream, parts_.limits.of_hold(options_), report_, times,
                          [this](StoppedWork& stopped) { drop_all(&stopped); });
}

/// Ends at the first failure.
void HeldDrop::drop_all(StoppedWork* hold) {
  let_through_ = clock_.now() - std::chrono::hours(1);  // Not yet.
  for (const std::size_t slot : slots_) {
    if (allocation_.being_freed) return;
    try {
      drop_one(slot, hold);
    } catch (const std::exception& error) {
      report_.failures.push_back({slot * allocation_.geometry().chunk_bytes, error.what(), false});
      throw;
    }
  }
}

/// Probes just before that driver calls return, as for a move: while a slot goes dark no other
/// thread may open the hold.
void HeldDrop::drop_one(std::size_t slot, StoppedWork* hold) {
  constexpr std::chrono::milliseconds ask_period(1);
  const PhaseTimer timer(clock_, report_.phases.unmap);
  if (hold == nullptr) {
    chunks_.push_back(allocation_.drop(slot));
    return;
  }
  if (clock_.now() - let_through_ >= ask_period) {
    memory_.chunks().keepers().probe_grant();
    hold->alive();
  }
  hold->begin_dark();
  try {
    chunks_.push_back(allocation_.drop(slot));
  } catch (...) {
    hold->end_dark();
    throw;
  }
  hold->end_dark();
  hold->alive();
  let_through_ = clock_.now();
}

void HeldDrop::finish(TimePoint start) noexcept {
  report_.chunks_moved = static_cast<int>(chunks_.size());
  for (const Chunk& chunk : chunks_) report_.bytes_moved += chunk.size_bytes();
  if (chunks_.size() == slots_.size()) {
    report_.outcome = Outcome::done;
  } else if (report_.failures.empty() && allocation_.being_freed) {
    report_.outcome = Outcome::cancelled;
  } else {
    report_.outcome = chunks_.empty() ? Outcome::failed : Outcome::partly;
  }
  {
    const PhaseTimer timer(clock_, report_.phases.retire);
    give_back();
  }
  report_.wall = clock_.now() - start;
}

void HeldDrop::give_back() noexcept {
  for (Chunk& chunk : chunks_) memory_.chunks().dismiss(std::move(chunk));
  chunks_.clear();
}

Restoration::Restoration(const MoveParts& parts, Allocation& allocation, SlotRange range,
                         Location at)
    : parts_(parts),
      memory_(parts.memory),
      clock_(parts.memory.driver().clock()),
      allocation_(allocation),
      range_(range),
      at_(at) {}

Restoration::~Restoration() {
  for (Chunk& chunk : chunks_) memory_.chunks().retire(std::move(chunk));
}

MigrationReport Restoration::run() {
  const TimePoint start = clock_.now();
  try {
    naming_mapping_limit(resume_call, [this] {
      plan();
      obtain();
      for (std::size_t i = 0; i < chunks_.size() && !allocation_.being_freed; ++i) {
        show(slots_[i], chunks_[i]);
      }
    });
  } catch (const Error& error) {
    finish(start);
    throw migration_error(error, report_, allocation_);
  }
  finish(start);
  return report_;
}

void Restoration::plan() {
  parts_.reach.require_atomics(allocation_, range_, at_, resume_call);
  for (std::size_t slot = range_.first; slot < range_.end; ++slot) {
    if (!allocation_.dropped(slot)) continue;
    slots_.push_back(slot);
    report_.bytes_asked += allocation_.geometry().slot_bytes(slot);
  }
  report_.chunks = static_cast<int>(slots_.size());
  chunks_.reserve(slots_.size());
}

/// Makes room as for an allocation: from the cache, by releasing the cache, by the pressure.
void Restoration::obtain() {
  const PhaseTimer timer(clock_, report_.phases.cache);
  MemoryPressure::Want want(memory_.pressure());
  const MoveTerms terms;
  parts_.room.with_room(want, terms, at_, report_.bytes_asked, [&] {
    memory_.chunks().require_room(at_, report_.bytes_asked, resume_call);
  });
  for (const std::size_t slot : slots_) {
    const std::uint64_t slot_bytes = allocation_.geometry().slot_bytes(slot);
    parts_.room.with_room(want, terms, at_, slot_bytes, [&] {
      chunks_.push_back(memory_.chunks().obtain(at_, slot_bytes, ChunkStore::Turn::take,
                                                resume_call, allocation_.export_needs));
    });
  }
  for (const Chunk& chunk : chunks_) parts_.engine.zero(chunk);
}

void Restoration::show(std::size_t slot, Chunk& chunk) {
  const PhaseTimer timer(clock_, report_.phases.map);
  const Location from = allocation_.home(slot);
  try {
    try {
      allocation_.restore(slot, chunk, memory_.topology());
    } catch (const Error& error) {
      // Page tables need memory too: release what is held back for them and retry once.
      if (error.kind() != ErrorKind::out_of_memory || !allocation_.dropped(slot)) throw;
      if (!memory_.chunks().keepers().give_up_spares()) throw;
      allocation_.restore(slot, chunk, memory_.topology());
    }
  } catch (const std::exception& error) {
    report_.failures.push_back(
        {slot * allocation_.geometry().chunk_bytes, error.what(), !allocation_.dropped(slot)});
    throw;
  }
  ++report_.chunks_moved;  // A dark slot was not counted.
  report_.bytes_moved += allocation_.geometry().slot_bytes(slot);
  tell_restored(slot, from);
}

void Restoration::tell_restored(std::size_t slot, Location from) noexcept {
  ChunkStep step;
  step.kind = ChunkStep::Kind::restored;
  step.begin = step.end = step.switched = clock_.now();
  step.address = allocation_.slot_begin(slot);
  step.bytes = allocation_.geometry().slot_bytes(slot);
  step.from = from;
  step.to = at_;
  parts_.observers.tell(step);
}

void Restoration::finish(TimePoint start) noexcept {
  if (report_.chunks_moved == report_.chunks) {
    report_.outcome = Outcome::done;
  } else if (report_.failures.empty() && allocation_.being_freed) {
    report_.outcome = Outcome::cancelled;
  } else {
    report_.outcome = report_.chunks_moved == 0 ? Outcome::failed : Outcome::partly;
  }
  report_.wall = clock_.now() - start;
}

}  // namespace vma
