#pragma once

#include "base/units.hpp"
#include "migrate/migration/move_parts.hpp"
#include "migrate/migration/transaction.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <span>

namespace vma {

/// Decides whether the copies of one synchronous migration are enqueued just before its hold takes
/// effect, in contexts of the program, and enqueues them. Otherwise they need a context of the
/// runtime's own. docs/internals/architecture.md has the order of the calls.
///
/// One thread, the one of the migration.
class AheadCopies final : public BeforeHold {
 public:
  /// Each call that enqueues a copy lengthens the time in which work of other threads is not
  /// covered.
  static constexpr std::size_t copies_max = 64;
  /// A try that fails must wait for the copies before the next one. A larger migration may take the
  /// time and memory that a context of its own costs.
  static constexpr std::uint64_t bytes_max = 8 * GiB;

  /// Of these transactions, which outlive it, to `to`.
  AheadCopies(const MoveParts& parts, std::deque<Transaction>& transactions, Location to);

  /// Requires: the transactions are planned.
  void choose();
  bool used() const noexcept { return used_; }
  /// What is stopped when the copies are enqueued. Requires: chosen.
  CopyUnder under() const noexcept { return used_ ? CopyUnder::nothing : CopyUnder::hold; }
  /// Sets up the routes. Blocks: for a fifth of a second if a context is new.
  void prepare();
  /// Why a transaction has no target: it fails once those before it have moved.
  void note_no_target(std::exception_ptr reason) noexcept { no_target_ = std::move(reason); }

  void enqueue(std::span<const EventHandle> at_rest, TimePoint deadline) override;
  void recall(TimePoint deadline) override;
  /// Throws: what kept the copy of the transaction from being enqueued. Requires: the hold is
  /// closed; the transactions before it have been passed here.
  void require_started(Transaction& transaction);

 private:
  bool may_run_ahead() const;
  bool needs_new_context() const;
  void start(Transaction& transaction, std::span<const EventHandle> at_rest, TimePoint deadline);

  const MoveParts& parts_;
  std::deque<Transaction>& transactions_;
  const Location to_;
  bool used_ = false;
  std::vector<Location> ordered_;  // Sources whose route waits for the events of this try.
  std::exception_ptr no_target_;
  std::exception_ptr failure_;  // Of the first transaction that is neither copying nor clean.
};

}  // namespace vma
