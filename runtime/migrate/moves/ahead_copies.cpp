#include "migrate/moves/ahead_copies.hpp"

#include "base/check.hpp"

#include <vma/error.hpp>

#include <algorithm>
#include <cstdint>
#include <exception>

namespace vma {

AheadCopies::AheadCopies(MigrationParts& parts, std::span<HeldRange* const> ranges,
                         const std::vector<HeldStep>& order)
    : parts_(parts), ranges_(ranges), order_(order) {}

void AheadCopies::choose() {
  chunks_ = 0;
  for (const HeldRange* const range : ranges_) chunks_ += range->transactions.size();
  used_ = needs_new_context() && may_run_ahead();
}

bool AheadCopies::needs_new_context() const {
  return std::ranges::any_of(ranges_, [&](const HeldRange* range) {
    return std::ranges::any_of(range->transactions, [&](const Transaction& transaction) {
      return parts_.engine.hold_creates_context(transaction.from(), range->to);
    });
  });
}

bool AheadCopies::may_run_ahead() const {
  if (chunks_ > copies_max) return false;
  std::uint64_t bytes = 0;
  for (const HeldRange* const range : ranges_) {
    for (const Transaction& transaction : range->transactions) {
      bytes += transaction.size_bytes();
      if (bytes > bytes_max) return false;
      if (!parts_.engine.can_copy_ahead(transaction.from(), range->to)) return false;
    }
  }
  return true;
}

void AheadCopies::prepare(const HeldRange& range) {
  // Beside the events at the ends of the copies, the hold takes one of the context.
  const std::size_t copies = used_ ? chunks_ + 1 : 1;
  for (const Transaction& transaction : range.transactions) {
    parts_.engine.prepare(transaction.from(), range.to, copies, under());
  }
}

void AheadCopies::enqueue(std::span<const EventHandle> at_rest, TimePoint deadline) {
  ordered_.clear();
  for (HeldRange* const range : ranges_) range->not_copied = nullptr;
  for (const HeldStep& turn : order_) {
    const auto& [range, transaction] = turn;
    if (range->not_copied) continue;  // Those behind one that is not copied stay.
    if (transaction->state() == Transaction::State::planned) range->not_copied = range->no_target;
    if (range->not_copied || transaction->target_clean()) continue;
    try {
      if (range->unwanted()) {  // If it was freed in the queue, it has no chunks any more.
        throw Error(ErrorKind::cancelled, "vma::migrate", "before it was copied");
      }
      start(turn, at_rest, deadline);
    } catch (const std::exception&) {
      range->not_copied = std::current_exception();
    }
  }
}

void AheadCopies::start(HeldStep turn, std::span<const EventHandle> at_rest, TimePoint deadline) {
  const Route route{turn.transaction->from(), turn.range->to};
  if (std::ranges::find(ordered_, route) == ordered_.end()) {
    parts_.engine.order_after(route.first, route.second, CopyUnder::nothing, at_rest);
    ordered_.push_back(route);
  }
  turn.transaction->start_copy(CopyUnder::nothing, deadline);
}

/// The program has run since: what was copied is stale.
void AheadCopies::recall(TimePoint deadline) {
  for (const HeldStep& turn : order_) {
    Transaction& transaction = *turn.transaction;
    if (transaction.state() != Transaction::State::copying) continue;
    if (!transaction.copy_done_by(deadline)) {
      throw Error(ErrorKind::busy, "vma::migrate",
                  "earlier work did not end within the limit, nor did the copies behind it. Set a "
                  "longer MigrateOptions::deadline, synchronise before, or use migrate_async");
    }
    transaction.finish_copy();
    transaction.discard_copy();
  }
}

void AheadCopies::require_started(HeldStep turn) {
  auto& [range, transaction] = turn;
  if (transaction->state() == Transaction::State::copying) return;
  if (transaction->state() == Transaction::State::planned) {
    std::rethrow_exception(range->no_target);
  }
  if (transaction->target_clean()) return transaction->note_clean();  // Under `operations()`.
  VMART_CHECK(range->not_copied != nullptr, "each copy was enqueued, or one before it has failed");
  std::rethrow_exception(range->not_copied);
}

}  // namespace vma
