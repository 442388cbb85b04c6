#include "migrate/moves/waited_migrations.hpp"

#include "memory/move_claim.hpp"
#include "migrate/migration/exporter_moves.hpp"
#include "migrate/migration/migration_error.hpp"
#include "migrate/migration/move_account.hpp"
#include "migrate/migration/move_observers.hpp"
#include "migrate/moves/held_migration.hpp"
#include "migrate/moves/held_ranges.hpp"
#include "migrate/stops/copy_scopes.hpp"
#include "migrate/stops/stopped_work.hpp"

#include <vma/error.hpp>

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
namespace {

constexpr const char* follow_call = "vma::import_allocation";

/// Switches slots of imported memory to other chunks, while the process that exports it moves the
/// bytes: implements `Migrator::follow`, step by step.
///
/// All work of this process is suspended where that is possible, or else the attached streams that
/// may use the memory stop at a gate, or, if there are none, all contexts in use are held: from
/// before the exporter copies until the move is decided. In this time the slots show the targets
/// already, and the stop is dark, so that nothing ends it: work that ran then would lose its
/// writes. So the decision only has to be noted; only after one to stay, the slots are switched
/// back. One thread, which has the allocation's move claim and `operations()`.
class HeldFollow {
 public:
  /// All arguments outlive it.
  HeldFollow(MigrationParts& parts, Allocation& allocation, const MigrateOptions& options,
             ImporterMove& leader)
      : parts_(parts), allocation_(allocation), options_(options), leader_(leader) {}

  /// Whether the slots have switched: all, or none. Throws: Error; then none has, unless one is
  /// poisoned. What they showed before, or were to show, goes back.
  MigrationReport run(std::span<ImporterChunk> chunks);

 private:
  void plan(std::span<ImporterChunk> chunks);
  void stop_and_switch();
  void switch_all(StoppedWork& stopped);
  void take_all_back(std::exception_ptr& failure) noexcept;

  MigrationParts& parts_;
  Allocation& allocation_;
  const MigrateOptions& options_;
  ImporterMove& leader_;
  MigrationReport report_;
  std::deque<Transaction> transactions_;
};

MigrationReport HeldFollow::run(std::span<ImporterChunk> chunks) {
  plan(chunks);
  stop_and_switch();
  report_.outcome = report_.chunks_moved == 0 ? Outcome::cancelled : Outcome::done;
  for (Transaction& transaction : transactions_)
    transaction.give_source_up(options_, MigrationTerms());
  return report_;
}

void HeldFollow::stop_and_switch() {
  const HoldLimits limits = parts_.limits.of_hold(options_);
  HeldTimes times;
  const auto body = [this](StoppedWork& stopped) { switch_all(stopped); };
  const bool may_suspend = std::ranges::all_of(transactions_, [&](const Transaction& transaction) {
    return parts_.stops.may_suspend(transaction.from(), transaction.target().at());
  });
  // Also before a suspension, which the driver may refuse: nothing is prepared after `ready`.
  const bool attached = parts_.stops.attached().any(allocation_.begin());
  BoundStream stream;
  if (!attached) stream = parts_.engine.stream_of_hold(transactions_.front().from());
  leader_.ready();
  if (may_suspend && !parts_.stops.suspend_while(limits, report_, times, body)) return;
  if (attached) {
    return parts_.stops.gate_while(allocation_, parts_.limits.of_gate(options_, limits.patience),
                                   report_, times, body);
  }
  parts_.stops.hold_while(stream, limits, report_, times, body);
}

void HeldFollow::plan(std::span<ImporterChunk> chunks) {
  require_no_loss(allocation_, follow_call);
  if (allocation_.being_freed) {
    throw Error(ErrorKind::cancelled, follow_call, "the importer frees the memory");
  }
  if (const std::string why = allocation_.why_kept(); !why.empty()) {
    throw Error(ErrorKind::pinned, follow_call, "the imported memory " + why);
  }
  CopyScopes::process().require_guards(follow_call);
  for (ImporterChunk& led : chunks) {
    Transaction& transaction = transactions_.emplace_back(parts_.memory, parts_.engine, allocation_,
                                                          led.slot, led.chunk.at());
    transaction.take_target(std::move(led.chunk));
    transaction.note_copied();  // By the exporter, before it decides.
  }
  report_.chunks = static_cast<int>(transactions_.size());
}

void HeldFollow::switch_all(StoppedWork& stopped) {
  DarkTimes dark(&stopped, parts_.memory.chunks().keepers(), parts_.memory.driver().clock());
  dark.during([this] {
    std::exception_ptr failure;
    bool switches = false;
    try {
      for (Transaction& transaction : transactions_) transaction.show_target(report_.phases);
      switches = leader_.stopped();
    } catch (...) {
      failure = std::current_exception();
    }
    if (switches) {
      for (Transaction& transaction : transactions_) transaction.keep_target();
      report_.chunks_moved = report_.chunks;
    } else {
      take_all_back(failure);
    }
    if (failure) std::rethrow_exception(failure);
  });
}

/// Each, whatever becomes of the others.
void HeldFollow::take_all_back(std::exception_ptr& failure) noexcept {
  for (Transaction& transaction : transactions_) {
    if (transaction.state() != Transaction::State::shown) continue;
    try {
      transaction.take_back(report_.phases);
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
}

}  // namespace

MigrationReport WaitedMigrations::move(Allocation& allocation, SlotRange range, Place to,
                                       const MigrateOptions& options, const MigrationTerms& terms) {
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

std::vector<RangeResult> WaitedMigrations::move_all(std::span<const RequestedRange> wanted,
                                                    const MigrateOptions& options,
                                                    const MigrationTerms& terms,
                                                    GroupAccount& account) {
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
void WaitedMigrations::conclude(HeldRange& range, const MigrationTerms& terms) noexcept {
  if (terms.choice == PlaceChoice::program) {
    range.allocation.note_wanted_there(range.range.first, range.range.end, range.to);
  }
  range.allocation.offer_cpu(range.range.first, range.range.end);
  if (range.begun) note_end(range.allocation, range.report);
}

/// With an error for everything that did not move in full.
RangeResult WaitedMigrations::result_of(HeldRange& range) const noexcept {
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

void WaitedMigrations::run(std::span<HeldRange* const> ranges, const MigrateOptions& options,
                           const MigrationTerms& terms, GroupAccount* account) noexcept {
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
    // A free that had the claim before has ended: its memory may be another allocation's by now.
    if (range.allocation.being_freed) {
      range.untold = false;
      range.report.outcome = Outcome::cancelled;
      return;
    }
    require_contents(range.allocation, range.range, "vma::migrate");
    MoveNotices& told = notices.emplace_back(range.allocation, *parts_.callbacks);
    range.notices = &told;
    for (std::size_t slot = range.range.first; slot < range.range.end; ++slot) {
      if (!Transaction::is_needed(parts_.memory, range.allocation, slot, range.to)) continue;
      told.before(slot, range.allocation.place(slot), range.to);
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
    HeldMigration move(parts_, going, options, terms);
    move.run();
    if (account != nullptr) {
      if (move.stopped()) account->stopped(std::nullopt, move.stall());
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

void WaitedMigrations::note_end(Allocation& allocation, const MigrationReport& report) noexcept {
  allocation.placed_at = parts_.memory.driver().clock().now();
  parts_.observers.ended(allocation, report);
}

MigrationReport WaitedMigrations::follow(Allocation& allocation, std::span<ImporterChunk> chunks,
                                         const MigrateOptions& options, ImporterMove& leader) {
  MoveNotices notices(allocation, *parts_.callbacks);  // Slots that `after` does not name stayed.
  std::vector<std::size_t> slots;
  for (const ImporterChunk& led : chunks) {
    notices.before(led.slot, allocation.place(led.slot), led.chunk.at());
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
