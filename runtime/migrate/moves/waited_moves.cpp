#include "migrate/moves/waited_moves.hpp"

#include "migrate/migration/all_operations.hpp"
#include "migrate/migration/migration_error.hpp"
#include "migrate/migration/move_notices.hpp"
#include "migrate/moves/held_drop.hpp"
#include "migrate/moves/held_move.hpp"
#include "migrate/moves/restoration.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <list>
#include <utility>
#include <vector>

namespace vma {

MigrationReport WaitedMoves::move(Allocation& allocation, SlotRange range, Location to,
                                  const MigrateOptions& options, const MoveTerms& terms) {
  HeldRange held(allocation, range, to);
  HeldRange* const only = &held;
  do {
    run({&only, 1}, options, terms);
  } while (held.untold);
  if (terms.choice == PlaceChoice::program)
    allocation.note_wanted_there(range.first, range.end, to);
  if (held.begun) note_end(allocation, held.report);
  if (held.failure) std::rethrow_exception(held.failure);
  return held.report;
}

void WaitedMoves::run(std::span<HeldRange* const> ranges, const MigrateOptions& options,
                      const MoveTerms& terms) noexcept {
  std::list<MoveNotices> notices;
  std::vector<HeldRange*> going;
  std::vector<Allocation*> allocations;
  // Slots that `after` does not name have stayed.
  const auto begin = [&](HeldRange& range) {
    require_contents(range.allocation, range.range, "vma::migrate");
    MoveNotices& told = notices.emplace_back(range.allocation, parts_.callbacks);
    range.notices = &told;
    for (std::size_t slot = range.range.first; slot < range.range.end; ++slot) {
      const Location from = range.allocation.home(slot);
      if (from != range.to) told.before(slot, from, range.to);
    }
    allocations.push_back(&range.allocation);
    going.push_back(&range);
  };
  for (HeldRange* const range : ranges) {
    try {
      begin(*range);
    } catch (...) {
      range->refuse(std::current_exception());
    }
  }
  try {
    const AllOperations operations(std::move(allocations));
    HeldMove(parts_, going, options, terms).run();
  } catch (...) {  // No memory for the locks.
    for (HeldRange* const range : going) range->refuse(std::current_exception());
  }
  for (HeldRange* const range : going) {
    for (std::size_t slot = range->range.first; slot < range->range.end; ++slot) {
      if (range->allocation.home(slot) == range->to) range->notices->after(slot, true);
    }
  }
  for (HeldRange* const range : ranges) range->notices = nullptr;
}

void WaitedMoves::note_end(Allocation& allocation, const MigrationReport& report) noexcept {
  allocation.placed_at = parts_.memory.driver().clock().now();
  parts_.observers.ended(allocation, report);
}

// --- Dropped contents

template <typename Body>
MigrationReport WaitedMoves::tell_hooks(Allocation& allocation, SlotRange range, bool drops,
                                        Location to, Body&& body) {
  MoveNotices notices(allocation, parts_.callbacks);
  std::vector<std::size_t> slots;
  for (std::size_t slot = range.first; slot < range.end; ++slot) {
    if (allocation.dropped(slot) == drops) continue;
    const Location from = allocation.home(slot);
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
    if (!slots.empty()) allocation.placed_at = parts_.memory.driver().clock().now();
    parts_.memory.tell_changed(allocation);
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

MigrationReport WaitedMoves::drop(Allocation& allocation, SlotRange range,
                                  const MigrateOptions& options) {
  return tell_hooks(allocation, range, true, {}, [&] {
    require_no_loss(allocation, "vma::park");
    require_no_pin(allocation, "vma::park");
    return HeldDrop(parts_, allocation, range, options).run();
  });
}

MigrationReport WaitedMoves::restore(Allocation& allocation, SlotRange range, Location at) {
  return tell_hooks(allocation, range, false, at,
                    [&] { return Restoration(parts_, allocation, range, at).run(); });
}

}  // namespace vma
