#include "migrate/moves/ahead_copies.hpp"

#include "base/check.hpp"

#include <vma/error.hpp>

#include <algorithm>

namespace vma {

AheadCopies::AheadCopies(const MoveParts& parts, std::deque<Transaction>& transactions, Location to)
    : parts_(parts), transactions_(transactions), to_(to) {}

void AheadCopies::choose() {
  used_ = needs_new_context() && may_run_ahead();
}

bool AheadCopies::needs_new_context() const {
  return std::ranges::any_of(transactions_, [&](const Transaction& transaction) {
    return parts_.engine.hold_creates_context(transaction.from(), to_);
  });
}

bool AheadCopies::may_run_ahead() const {
  if (transactions_.size() > copies_max) return false;
  std::uint64_t bytes = 0;
  for (const Transaction& transaction : transactions_) {
    bytes += transaction.size_bytes();
    if (bytes > bytes_max || !parts_.engine.can_copy_ahead(transaction.from(), to_)) return false;
  }
  return true;
}

void AheadCopies::prepare() {
  // Beside the events at the ends of the copies, the hold takes one of the context.
  const std::size_t copies = used_ ? transactions_.size() + 1 : 1;
  for (const Transaction& transaction : transactions_) {
    parts_.engine.prepare(transaction.from(), to_, copies, under());
  }
}

void AheadCopies::enqueue(std::span<const EventHandle> at_rest, TimePoint deadline) {
  ordered_.clear();
  failure_ = nullptr;
  try {
    for (Transaction& transaction : transactions_) {
      if (transaction.state() == Transaction::State::planned) return;
      if (!transaction.target_clean()) start(transaction, at_rest, deadline);
    }
  } catch (const std::exception&) {
    failure_ = std::current_exception();
  }
}

void AheadCopies::start(Transaction& transaction, std::span<const EventHandle> at_rest,
                        TimePoint deadline) {
  const Location from = transaction.from();
  if (std::ranges::find(ordered_, from) == ordered_.end()) {
    parts_.engine.order_after(from, to_, CopyUnder::nothing, at_rest);
    ordered_.push_back(from);
  }
  transaction.start_copy(CopyUnder::nothing, deadline);
}

/// The program has run since: what was copied is stale.
void AheadCopies::recall(TimePoint deadline) {
  for (Transaction& transaction : transactions_) {
    if (transaction.state() != Transaction::State::copying) continue;
    if (!transaction.copy_done_by(deadline)) {
      throw Error(ErrorKind::busy, "vma::migrate",
                  "earlier work did not end within the limit, nor did the copies behind it");
    }
    transaction.finish_copy();
    transaction.discard_copy();
  }
}

void AheadCopies::require_started(Transaction& transaction) {
  if (transaction.state() == Transaction::State::copying) return;
  if (transaction.state() == Transaction::State::planned) std::rethrow_exception(no_target_);
  if (transaction.target_clean()) return transaction.note_clean();  // Under `operations()`.
  VMART_CHECK(failure_ != nullptr, "each copy was enqueued, or one before it has failed");
  std::rethrow_exception(failure_);
}

}  // namespace vma
