#include "migrate/migration/target_reservation.hpp"

#include "migrate/migration/migration_error.hpp"

#include <cstdint>
#include <map>

namespace vma {

Error nothing_moves(const char* call) {
  return Error(ErrorKind::cancelled, call,
               "another request of the call cannot begin, so nothing moves "
               "(MigrateOptions::all_or_nothing)");
}

TargetReservation::TargetReservation(const MoveParts& parts, const MigrateOptions& options,
                                     const MoveTerms& terms, const char* call)
    : parts_(parts),
      waits_for_pins_(options.wait_for_pins),
      terms_(terms),
      call_(call),
      want_(parts.memory.pressure(), terms.asks_for_room) {}

bool TargetReservation::make(JointMoves& moves) noexcept {
  const std::size_t count = moves.count();
  std::size_t failed = count;
  std::exception_ptr failure, others;
  try {
    require_room(moves);
    for (failed = 0; failed < count; ++failed) {
      moves.with_claim(failed, [&] { take(moves.wanted(failed), moves.targets(failed)); });
    }
    return true;
  } catch (...) {
    failure = others = std::current_exception();
  }
  try {
    if (failed < count) throw nothing_moves(call_);
  } catch (...) {
    others = std::current_exception();
  }
  for (std::size_t which = 0; which < count; ++which) {
    moves.refuse(which, which == failed ? failure : others);
  }
  return false;
}

/// Refuses what cannot fit by the ledger, before anything is allocated.
void TargetReservation::require_room(const JointMoves& moves) {
  Slots counted;
  std::map<Location, std::uint64_t> need_bytes;
  ChunkStore& chunks = parts_.memory.chunks();
  for (std::size_t which = 0; which < moves.count(); ++which) {
    const auto [allocation, range, to] = moves.wanted(which);
    for (std::size_t slot = range.first; slot < range.end; ++slot) {
      if (allocation->home(slot) == to || !counted.insert({allocation.get(), slot}).second)
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

/// Requires: the caller has the move claim.
void TargetReservation::take(const RequestedRange& wanted, ReservedTargets& targets) {
  require_movable(wanted);
  const auto& [allocation, range, to] = wanted;
  for (std::size_t slot = range.first; slot < range.end; ++slot) {
    if (allocation->home(slot) == to || !taken_.insert({allocation.get(), slot}).second) continue;
    Transaction& planned = targets.add(parts_.memory, parts_.engine, *allocation, slot, to);
    if (planned.take_clean_target() || planned.take_cached_target()) continue;
    parts_.memory.with_room(want_, to, planned.size_bytes(),
                            [&] { planned.take_target(ChunkStore::Turn::take); });
  }
}

}  // namespace vma
