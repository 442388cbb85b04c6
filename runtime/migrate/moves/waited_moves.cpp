#include "migrate/moves/waited_moves.hpp"

#include "memory/move_claim.hpp"
#include "migrate/migration/migration_error.hpp"
#include "migrate/migration/move_account.hpp"
#include "migrate/migration/move_notices.hpp"
#include "migrate/moves/held_follow.hpp"
#include "migrate/moves/held_ranges.hpp"
#include "migrate/moves/held_move.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <exception>
#include <iterator>
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace vma {

MigrationReport WaitedMoves::move(Allocation& allocation, SlotRange range, Location to,
                                  const MigrateOptions& options, const MoveTerms& terms) {
  HeldRange held(allocation, range, to);
  held.on_progress = options.on_progress;
  HeldRange* const only = &held;
  do {
    run({&only, 1}, options, terms);
  } while (held.untold);
  conclude(held, terms);
  if (held.failure) throw *result_of(held).error;
  return held.report;
}

std::vector<RangeResult> WaitedMoves::move_all(std::span<const RequestedRange> wanted,
                                               const MigrateOptions& options,
                                               const MoveTerms& terms, GroupAccount& account) {
  HeldGroup group(wanted, terms, account);
  std::vector<RangeResult> results(wanted.size());
  const auto move = [&](std::span<HeldRange* const> some) {
    run(some, options, terms, &account);
    for (HeldRange* const range : some) {
      if (!range->untold) conclude(*range, terms);
    }
    account.ended();
  };
  if (!options.all_or_nothing || group.reserve(parts_, options, terms)) {
    const std::span<HeldRange* const> together = group.claim_together();
    if (!together.empty()) move(together);
    group.end_together();
    for (HeldRange* range : group.alone()) {
      const MoveClaim claim = group.claim_alone(*range);
      if (!claim) continue;
      do {
        move({&range, 1});
      } while (range->untold);
      range->reserved().give_back();
    }
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) results[i] = result_of(group.ranges()[i]);
  return results;
}

/// The range has ended, before its claim is given back.
void WaitedMoves::conclude(HeldRange& range, const MoveTerms& terms) noexcept {
  if (terms.choice == PlaceChoice::program) {
    range.allocation.note_wanted_there(range.range.first, range.range.end, range.to);
  }
  range.allocation.offer_cpu(range.range.first, range.range.end);
  if (range.begun) note_end(range.allocation, range.report);
}

/// With an error for everything that did not move in full.
RangeResult WaitedMoves::result_of(HeldRange& range) const noexcept {
  MigrationReport& report = range.report;
  std::exception_ptr failure = range.failure;
  if (!failure && report.outcome != Outcome::done) {
    failure = cancelled_after(report, range.allocation, "vma::migrate");
  }
  if (!failure) return {std::move(report), std::nullopt};
  std::optional<Error> error = errors_.of(failure, report, range.allocation);
  report.outcome = outcome_of(*error, report);
  return {std::move(report), std::move(error)};
}

void WaitedMoves::run(std::span<HeldRange* const> ranges, const MigrateOptions& options,
                      const MoveTerms& terms, GroupAccount* account) noexcept {
  std::list<MoveNotices> notices;
  std::vector<HeldRange*> going;
  std::vector<Allocation*> allocations;
  // Slots that `after` does not name have stayed.
  const auto begin = [&](HeldRange& range) {
    if (range.task != nullptr && range.task->refusal) {
      std::rethrow_exception(range.task->refusal);
    }
    if (range.task != nullptr && range.task->cancelled()) {
      throw Error(ErrorKind::cancelled, "vma::migrate_async", "before it began");
    }
    require_contents(range.allocation, range.range, "vma::migrate");
    MoveNotices& told = notices.emplace_back(range.allocation, parts_.callbacks);
    range.notices = &told;
    for (std::size_t slot = range.range.first; slot < range.range.end; ++slot) {
      if (!Transaction::is_needed(parts_.memory, range.allocation, slot, range.to)) continue;
      told.before(slot, range.allocation.home(slot), range.to);
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
    AllOperations operations(std::move(allocations));
    operations.take();
    HeldMove move(parts_, going, options, terms);
    move.run();
    if (account != nullptr) {
      if (move.stood()) account->stood(std::nullopt, move.stall());
      account->gave_up(move.retries());
    }
  } catch (...) {  // No memory for the locks.
    for (HeldRange* const range : going) range->refuse(std::current_exception());
  }
  for (HeldRange* const range : going) {
    for (std::size_t slot = range->range.first; slot < range->range.end; ++slot) {
      if (!Transaction::is_needed(parts_.memory, range->allocation, slot, range->to)) {
        range->notices->after(slot, true);
      }
    }
  }
  for (HeldRange* const range : ranges) range->notices = nullptr;
}

void WaitedMoves::note_end(Allocation& allocation, const MigrationReport& report) noexcept {
  allocation.placed_at = parts_.memory.driver().clock().now();
  parts_.observers.ended(allocation, report);
}

MigrationReport WaitedMoves::follow(Allocation& allocation, std::span<LedChunk> chunks,
                                    const MigrateOptions& options, LedMove& leader) {
  MoveNotices notices(allocation, parts_.callbacks);  // Slots that `after` does not name stayed.
  std::vector<std::size_t> slots;
  for (const LedChunk& led : chunks) {
    notices.before(led.slot, allocation.home(led.slot), led.chunk.at());
    slots.push_back(led.slot);
  }
  MigrationReport report;
  {
    const MutexLock operations(allocation.operations());
    report = HeldFollow(parts_, allocation, options, leader).run(chunks);
  }
  if (report.outcome != Outcome::done) return report;
  for (const std::size_t slot : slots) notices.after(slot, true);
  allocation.placed_at = parts_.memory.driver().clock().now();
  return report;
}

}  // namespace vma
