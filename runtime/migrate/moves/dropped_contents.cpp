#include "migrate/moves/dropped_contents.hpp"

#include "base/mapping_limit.hpp"
#include "memory/allocation.hpp"
#include "migrate/migration/migration_error.hpp"
#include "migrate/migration/move_observers.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <span>
#include <utility>
#include <vector>

namespace vma {
namespace {

constexpr const char* resume_call = "vma::resume";

/// The slots of the range that are dropped, or those that are not: what the report is about.
std::vector<std::size_t> slots_of(const Allocation& allocation, SlotRange range, bool dropped,
                                  MigrationReport& report) {
  std::vector<std::size_t> slots;
  for (std::size_t slot = range.first; slot < range.end; ++slot) {
    if (allocation.dropped(slot) != dropped) continue;
    slots.push_back(slot);
    report.bytes_asked += allocation.geometry().slot_bytes(slot);
  }
  report.chunks = static_cast<int>(slots.size());
  return slots;
}

Outcome outcome_of(const MigrationReport& report, const Allocation& allocation) noexcept {
  if (report.chunks_moved == report.chunks) return Outcome::done;
  if (report.failures.empty() && allocation.being_freed) return Outcome::cancelled;
  return outcome_of_failure(report);
}

/// Tells the hooks of each slot that `body` drops or restores; they run without `operations()`.
template <typename Body>
MigrationReport tell_hooks(MigrationParts& parts, Allocation& allocation, SlotRange range,
                           bool drops, Place to, Body&& body) {
  MoveNotices notices(allocation, *parts.callbacks);
  std::vector<std::size_t> slots;
  for (std::size_t slot = range.first; slot < range.end; ++slot) {
    if (allocation.dropped(slot) == drops) continue;
    const Place from = allocation.place(slot);
    notices.before(slot, from, drops ? from : to);
    slots.push_back(slot);
  }
  // Slots that `note_changed` does not name are unchanged, or dark.
  const auto note_changed = [&](const MigrationReport* failed) {
    const auto is_dark = [&](std::size_t slot) {
      const std::size_t offset = slot * allocation.geometry().chunk_bytes;
      return failed != nullptr && std::ranges::any_of(failed->failures, [&](const auto& failure) {
               return failure.poisoned && failure.offset == offset;
             });
    };
    std::erase_if(slots, [&](std::size_t slot) { return allocation.dropped(slot) != drops; });
    for (const std::size_t slot : slots) {
      if (!is_dark(slot)) notices.after(slot, true);
    }
    if (!slots.empty()) allocation.placed_at = parts.memory.driver().clock().now();
    parts.memory.tell_changed(allocation);
  };
  MigrationReport report;
  try {
    const MutexLock operations(allocation.operations());
    report = body();
  } catch (const Error& error) {
    note_changed(error.report());
    throw;
  } catch (...) {
    note_changed(nullptr);
    throw;
  }
  note_changed(nullptr);
  return report;
}

/// Gives up the chunks of one allocation with their bytes.
///
/// A dropped slot stays dark after the hold, since its owner wants it so: the hold only waits for
/// the work that was submitted before (I2). The chunks go back to the driver once work continues.
/// One thread, which has the allocation's move claim and `operations()`.
class HeldDrop {
 public:
  HeldDrop(MigrationParts& parts, Allocation& allocation, SlotRange range,
           const MigrateOptions& options);
  ~HeldDrop();  // Gives back what `run` has not.
  HeldDrop(const HeldDrop&) = delete;
  HeldDrop& operator=(const HeldDrop&) = delete;

  /// Throws: Error with the report.
  MigrationReport run();

 private:
  void plan();
  void drop_held();
  void drop_all(StoppedWork* hold);
  void finish(TimePoint start) noexcept;
  void give_back() noexcept;

  MigrationParts& parts_;
  Memory& memory_;
  Clock& clock_;
  Allocation& allocation_;
  const SlotRange range_;
  const MigrateOptions& options_;
  MigrationReport report_;
  std::vector<std::size_t> slots_;  // That show something.
  std::vector<Chunk> chunks_;       // Unmapped; capacity is reserved for all.
};

HeldDrop::HeldDrop(MigrationParts& parts, Allocation& allocation, SlotRange range,
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
  slots_ = slots_of(allocation_, range_, false, report_);
  chunks_.reserve(slots_.size());  // Nothing may throw between an unmap and its record.
}

void HeldDrop::drop_held() {
  if (options_.nothing_runs) {
    const MutexLock slow_work(memory_.chunks().slow_calls().turn());
    return drop_all(nullptr);
  }
  const BoundStream stream = parts_.engine.stream_of_hold(allocation_.place(slots_.front()));
  HeldTimes times;
  parts_.stops.hold_while(stream, parts_.limits.of_hold(options_), report_, times,
                          [this](StoppedWork& stopped) { drop_all(&stopped); });
}

/// Ends at the first failure.
void HeldDrop::drop_all(StoppedWork* hold) {
  DarkTimes dark(hold, memory_.chunks().keepers(), clock_);
  for (const std::size_t slot : slots_) {
    if (allocation_.being_freed) return;
    try {
      const PhaseTimer timer(clock_, report_.phases.unmap);
      dark.during([&] { chunks_.push_back(allocation_.drop(slot)); });
    } catch (const std::exception& error) {
      report_.failures.push_back({slot * allocation_.geometry().chunk_bytes, error.what(), false});
      throw;
    }
  }
}

void HeldDrop::finish(TimePoint start) noexcept {
  report_.chunks_moved = static_cast<int>(chunks_.size());
  for (const Chunk& chunk : chunks_) report_.bytes_moved += chunk.size_bytes();
  report_.outcome = outcome_of(report_, allocation_);
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

/// Gives memory to slots whose contents were dropped.
///
/// Allocates all memory of the range before its first slot shows any. Slots in a row are filled and
/// come back together; if that fails, they stay dropped. One thread, which has the allocation's
/// move claim and `operations()`.
class Restoration {
 public:
  Restoration(MigrationParts& parts, Allocation& allocation, SlotRange range, Place at,
              bool zeroed);
  ~Restoration();  // Chunks that no slot shows go to the cache.
  Restoration(const Restoration&) = delete;
  Restoration& operator=(const Restoration&) = delete;

  /// Throws: Error with the report.
  MigrationReport run();

 private:
  void plan();
  void obtain();
  void show(std::size_t first, std::span<Chunk> chunks);
  void restore(std::size_t first, std::span<Chunk> chunks);
  void grant_and_fill(Address begin, std::uint64_t size_bytes, const std::vector<Accessor>& granted,
                      std::span<Chunk> chunks);
  void grant(Address begin, std::uint64_t size_bytes, std::span<const Accessor> granted);
  void note_failure(std::size_t first, std::size_t end, const char* reason);
  void tell_restored(std::size_t slot, Place from) noexcept;
  void finish(TimePoint start) noexcept;

  MigrationParts& parts_;
  Memory& memory_;
  Clock& clock_;
  Allocation& allocation_;
  const SlotRange range_;
  const Place at_;
  const bool zeroed_;
  MigrationReport report_;
  std::vector<std::size_t> slots_;  // The dropped ones.
  std::vector<Chunk> chunks_;       // One for each of `slots_`; empty once shown.
};

Restoration::Restoration(MigrationParts& parts, Allocation& allocation, SlotRange range, Place at,
                         bool zeroed)
    : parts_(parts),
      memory_(parts.memory),
      clock_(parts.memory.driver().clock()),
      allocation_(allocation),
      range_(range),
      at_(at),
      zeroed_(zeroed) {}

Restoration::~Restoration() {
  for (Chunk& chunk : chunks_) memory_.chunks().retire(std::move(chunk));
}

MigrationReport Restoration::run() {
  const TimePoint start = clock_.now();
  try {
    naming_mapping_limit(resume_call, [this] {
      plan();
      obtain();
      for (std::size_t i = 0, end = 0; i < chunks_.size() && !allocation_.being_freed; i = end) {
        for (end = i + 1; end < slots_.size() && slots_[end] == slots_[end - 1] + 1; ++end) {
        }
        show(slots_[i], std::span(chunks_).subspan(i, end - i));
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
  slots_ = slots_of(allocation_, range_, true, report_);
  chunks_.reserve(slots_.size());
}

/// Makes room as for an allocation: from the cache, by releasing the cache, by the pressure.
void Restoration::obtain() {
  const PhaseTimer timer(clock_, report_.phases.cache);
  MemoryPressure::Want want(memory_.pressure(), MemoryPressure::Want::Asks::a_move);
  memory_.with_room(want, at_, report_.bytes_asked,
                    [&] { memory_.chunks().require_room(at_, report_.bytes_asked, resume_call); });
  for (const std::size_t slot : slots_) {
    const std::uint64_t slot_bytes = allocation_.geometry().slot_bytes(slot);
    memory_.with_room(want, at_, slot_bytes, [&] {
      chunks_.push_back(memory_.chunks().obtain(at_, slot_bytes, ChunkStore::Turn::take,
                                                resume_call, allocation_.export_needs));
    });
  }
}

void Restoration::show(std::size_t first, std::span<Chunk> chunks) {
  const PhaseTimer timer(clock_, report_.phases.map);
  const std::size_t end = first + chunks.size();
  std::vector<Place> from;
  for (std::size_t slot = first; slot < end; ++slot) from.push_back(allocation_.place(slot));
  try {
    try {
      restore(first, chunks);
    } catch (const Error& error) {
      // Page tables need memory too: release what is held back for them and retry once.
      if (error.kind() != ErrorKind::out_of_memory || allocation_.poisoned()) throw;
      if (!memory_.chunks().keepers().give_up_spares()) throw;
      restore(first, chunks);
    }
  } catch (const std::exception& error) {
    note_failure(first, end, error.what());
    throw;
  }
  for (std::size_t slot = first; slot < end; ++slot) {
    ++report_.chunks_moved;
    report_.bytes_moved += allocation_.geometry().slot_bytes(slot);
    tell_restored(slot, from[slot - first]);
  }
}

void Restoration::restore(std::size_t first, std::span<Chunk> chunks) {
  allocation_.restore(first, chunks, [&](Address begin, std::uint64_t size_bytes) {
    const std::vector<Accessor> granted = allocation_.accessors(at_, memory_.topology());
    if (zeroed_) {
      grant_and_fill(begin, size_bytes, granted, chunks);
    } else {
      grant(begin, size_bytes, granted);
    }
    verify_access(memory_.driver(), begin, size_bytes, granted);
  });
}

/// The GPU that fills the memory, most often its own, gets access first, and the others meanwhile.
void Restoration::grant_and_fill(Address begin, std::uint64_t size_bytes,
                                 const std::vector<Accessor>& granted, std::span<Chunk> chunks) {
  std::vector<Accessor> others = granted;
  CopyEngine::ZeroSteps steps;
  steps.before = [&](DeviceId device) {
    const Accessor filler{gpu(index(device)), Access::read_write};
    std::erase_if(others, [&](const Accessor& reader) { return reader.who == filler.who; });
    grant(begin, size_bytes, {&filler, 1});
  };
  steps.beside = [&] {
    if (!others.empty()) grant(begin, size_bytes, others);
  };
  steps.lost = [&] {
    for (const Chunk& chunk : chunks) chunk.mark_busy();
  };
  parts_.engine.zero(at_, begin, size_bytes, steps);
  if (allocation_.read_only()) grant(begin, size_bytes, granted);
}

/// The first grant of a handle is slow: not beside a stop, which has the turn.
void Restoration::grant(Address begin, std::uint64_t size_bytes,
                        std::span<const Accessor> granted) {
  const MutexLock slow_work(memory_.chunks().slow_calls().turn());
  memory_.driver().grant(begin, size_bytes, granted);
}

/// Names each slot that is dark now; if there is none, the first one.
void Restoration::note_failure(std::size_t first, std::size_t end, const char* reason) {
  const std::uint64_t chunk_bytes = allocation_.geometry().chunk_bytes;
  for (std::size_t slot = first; slot < end; ++slot) {
    if (allocation_.dropped(slot)) continue;
    report_.failures.push_back({slot * chunk_bytes, reason, true});
  }
  if (report_.failures.empty()) report_.failures.push_back({first * chunk_bytes, reason, false});
}

void Restoration::tell_restored(std::size_t slot, Place from) noexcept {
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
  report_.outcome = outcome_of(report_, allocation_);
  report_.wall = clock_.now() - start;
}

}  // namespace

MigrationReport drop_contents(MigrationParts& parts, Allocation& allocation, SlotRange range,
                              const MigrateOptions& options) {
  return tell_hooks(parts, allocation, range, true, {}, [&] {
    require_no_loss(allocation, "vma::park");
    require_no_pin(allocation, "vma::park");
    return HeldDrop(parts, allocation, range, options).run();
  });
}

MigrationReport restore_contents(MigrationParts& parts, Allocation& allocation, SlotRange range,
                                 Place at, bool zeroed) {
  return tell_hooks(parts, allocation, range, false, at,
                    [&] { return Restoration(parts, allocation, range, at, zeroed).run(); });
}

}  // namespace vma
