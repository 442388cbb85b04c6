#include "migrate/migration/target_reservation.hpp"

#include "base/process_exit.hpp"
#include "memory/move_claim.hpp"
#include "migrate/migration/migration_error.hpp"
#include "migrate/migration/migration_task.hpp"
#include "migrate/migration/migration_parts.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace vma {
namespace {

constexpr const char* background_call = "vma::migrate_async";

/// One thread; nothing is stopped.
class TargetReservation {
 public:
  TargetReservation(MigrationParts& parts, const MigrateOptions& options,
                    const MigrationTerms& terms, const char* call)
      : parts_(parts),
        waits_for_pins_(options.wait_for_pins),
        terms_(terms),
        call_(call),
        want_(parts.memory.pressure(), terms.asks()) {}

  void require_room(std::span<const JointMove> moves);
  /// Requires: the caller has the move claim.
  void take(const JointMove& move);

 private:
  using Slots = std::set<std::pair<const Allocation*, std::size_t>>;

  void require_movable(const RequestedRange& wanted) const;

  MigrationParts& parts_;
  const bool waits_for_pins_;
  const MigrationTerms terms_;
  const char* const call_;
  MemoryPressure::Want want_;
  Slots taken_;  // Several ranges may name a slot.
};

/// Refuses what cannot fit by the ledger, before anything is allocated.
void TargetReservation::require_room(std::span<const JointMove> moves) {
  Slots counted;
  std::map<Place, std::uint64_t> need_bytes;
  ChunkStore& chunks = parts_.memory.chunks();
  for (const JointMove& move : moves) {
    const auto& [allocation, range, to] = move.wanted;
    for (std::size_t slot = range.first; slot < range.end; ++slot) {
      if (allocation->place(slot) == to || !counted.insert({allocation.get(), slot}).second)
        continue;
      const bool copied =
          chunks.copies().has(allocation->begin(), slot, to, allocation->writable_epoch());
      if (!copied) need_bytes[to] += allocation->geometry().slot_bytes(slot);
    }
  }
  for (const auto& [to, size_bytes] : need_bytes) {
    parts_.memory.with_room(want_, to, size_bytes, [&, to = to, size_bytes = size_bytes] {
      chunks.require_room(to, size_bytes, call_);
    });
  }
}

void TargetReservation::require_movable(const RequestedRange& wanted) const {
  const auto& [allocation, range, to] = wanted;
  if (allocation->being_freed) {
    throw Error(ErrorKind::cancelled, call_, "before it began, because the memory is being freed");
  }
  require_no_loss(*allocation, call_);
  require_contents(*allocation, range, call_);
  if (!waits_for_pins_) require_no_pin(*allocation, call_);
  if (terms_.choice == PlaceChoice::runtime) parts_.reach.require(*allocation, range, to, call_);
  parts_.reach.require_atomics(*allocation, range, to, call_);
}

void TargetReservation::take(const JointMove& move) {
  require_movable(move.wanted);
  const auto& [allocation, range, to] = move.wanted;
  for (std::size_t slot = range.first; slot < range.end; ++slot) {
    if (allocation->place(slot) == to || !taken_.insert({allocation.get(), slot}).second) continue;
    Transaction& planned = move.targets.add(parts_.memory, parts_.engine, *allocation, slot, to);
    if (planned.take_clean_target() || planned.take_cached_target()) continue;
    parts_.memory.with_room(want_, to, planned.size_bytes(),
                            [&] { planned.take_target(ChunkStore::Turn::take); });
  }
}

/// Throws: Error{cancelled} if the task, or its memory, is no longer wanted.
void with_claim_of(MigrationTask& task, Clock& clock, const std::function<void()>& body) {
  constexpr std::chrono::milliseconds look_period(1);
  const std::shared_ptr<Allocation> allocation = task.allocation();
  while (true) {
    ProcessExit::hold_back();
    if (task.cancelled() || allocation->being_freed) {
      throw Error(ErrorKind::cancelled, background_call,
                  task.cancelled() ? "before it began"
                                   : "before it began, because the memory is being freed");
    }
    if (const MoveClaim claim = MoveClaim::try_take(allocation)) return body();
    task.pause_until(clock.now() + look_period);
  }
}

}  // namespace

Error nothing_moves(const char* call) {
  return Error(ErrorKind::cancelled, call,
               "another request of the call cannot begin, so nothing moves "
               "(MigrateOptions::all_or_nothing)");
}

bool reserve_targets(MigrationParts& parts, const MigrateOptions& options,
                     const MigrationTerms& terms, const char* call,
                     std::span<const JointMove> moves, const WithClaim& with_claim) noexcept {
  std::size_t failed = moves.size();
  std::exception_ptr failure, others;
  try {
    TargetReservation reservation(parts, options, terms, call);
    reservation.require_room(moves);
    for (failed = 0; failed < moves.size(); ++failed) {
      with_claim(failed, [&] { reservation.take(moves[failed]); });
    }
    return true;
  } catch (...) {
    failure = others = std::current_exception();
  }
  try {
    if (failed < moves.size()) throw nothing_moves(call);
  } catch (...) {
    others = std::current_exception();
  }
  for (std::size_t which = 0; which < moves.size(); ++which) {
    moves[which].refusal = which == failed ? failure : others;
  }
  return false;
}

void reserve_targets(MigrationParts& parts,
                     std::span<const std::shared_ptr<MigrationTask>> tasks) noexcept {
  const MigrationTask& first = *tasks.front();
  try {
    std::vector<JointMove> moves;
    for (const auto& task : tasks) {
      moves.push_back({{task->allocation(), task->range, task->to}, task->reserved, task->refusal});
    }
    Clock& clock = parts.memory.driver().clock();
    reserve_targets(parts, first.options, first.terms, background_call, moves,
                    [&](std::size_t which, const std::function<void()>& body) {
                      with_claim_of(*tasks[which], clock, body);
                    });
  } catch (...) {
    for (const auto& task : tasks) task->refusal = std::current_exception();
  }
}

}  // namespace vma
