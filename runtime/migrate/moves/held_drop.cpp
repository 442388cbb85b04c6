#include "migrate/moves/held_drop.hpp"

#include "migrate/migration/phase_timer.hpp"

#include <exception>
#include <utility>

namespace vma {

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

}  // namespace vma
