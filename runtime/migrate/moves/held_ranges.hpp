#pragma once

#include "memory/allocation.hpp"
#include "memory/move_claim.hpp"
#include "migrate/migration/callbacks.hpp"
#include "migrate/migration/group.hpp"
#include "migrate/migration/migration_task.hpp"
#include "migrate/migration/move_observers.hpp"
#include "migrate/migration/requests.hpp"
#include "migrate/migration/target_reservation.hpp"
#include "migrate/migration/transaction.hpp"

#include <vma/migration.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace vma {

/// One migration of a held move: what it is to move, how far it is, and what became of it. One
/// thread at a time, which has the allocation's move claim.
struct HeldRange {
  /// Throws: std::bad_alloc.
  HeldRange(Allocation& allocation, SlotRange range, Place to, MigrationTask* task = nullptr);

  /// It was cancelled, or its memory is being freed.
  bool unwanted() const noexcept;
  /// Whether all chunks that are to move have switched.
  bool has_all() const noexcept;
  /// Of the chunks that have no target yet.
  std::uint64_t missing_bytes() const noexcept;

  /// It failed before anything was stopped: its targets go back.
  void refuse(std::exception_ptr why) noexcept;
  /// A chunk of it failed, and is named in the report; the first failure is that of the range.
  void fail(const Transaction& transaction, std::exception_ptr why) noexcept;
  /// Sets the outcome, and what the chunks that have moved amount to.
  void summarise() noexcept;
  /// A chunk has switched: tells the task, or the caller on the completion thread.
  void tell_progress(Callbacks& callbacks) noexcept;

  Allocation& allocation;
  const SlotRange range;
  const Place to;
  MigrationTask* const task;  ///< Null if a caller waits.
  /// Of a caller that waits; may be empty.
  std::function<void(const MigrationProgress&)> on_progress;
  /// What its hooks are told; null if they need not be.
  MoveNotices* notices = nullptr;
  /// Target memory that was taken before.
  ReservedTargets& reserved() noexcept { return task != nullptr ? task->reserved : reserved_; }

  // --- What became of it.
  MigrationReport report;
  std::exception_ptr failure;  ///< Null unless it failed.
  bool begun = false;          ///< It was allowed to move, so that it counts as a migration.
  bool untold =
      false;  ///< A hook was added that was told of nothing: not begun, to be tried again.

  // --- During a move; only `HeldMigration` and its parts use it.
  std::deque<Transaction> transactions;  ///< In order of their slots.
  std::size_t end = SIZE_MAX;            ///< Its chunks from this place in the order on stay.
  /// Why a chunk has no target although all were to be created: it fails once those before it have
  /// moved.
  std::exception_ptr no_target;
  /// Why the first chunk without a copy was not copied ahead of the hold, in its last try.
  std::exception_ptr not_copied;

 private:
  ReservedTargets reserved_;  // Of a caller that waits.
};

/// A chunk's place in the order in which a held move copies and switches all of them.
struct HeldStep {
  HeldRange* range = nullptr;
  Transaction* transaction = nullptr;
};

/// The ranges of one call that waits: those that share a hold, and those of allocations with hooks,
/// which move alone, since a hook may free other memory, and the free would wait for its claim. One
/// thread.
class HeldGroup {
 public:
  /// `wanted` outlives it. Throws: std::bad_alloc.
  HeldGroup(std::span<const RequestedRange> wanted, const MigrationTerms& terms,
            GroupAccount& account);
  /// Gives back targets that were not needed.
  ~HeldGroup();
  HeldGroup(const HeldGroup&) = delete;
  HeldGroup& operator=(const HeldGroup&) = delete;

  /// In the order of the requests.
  std::deque<HeldRange>& ranges() noexcept { return ranges_; }
  /// Takes the target memory of all before any of them moves. False: none may. Those that move
  /// alone come first, each with its claim for that time: a thread takes claims in the order of
  /// their addresses, and from then on has those of all that move together.
  bool reserve(MigrationParts& parts, const MigrateOptions& options, const MigrationTerms& terms);
  /// Those that share a hold, with their claims; without those that are not waited for. Blocks:
  /// while another thread has a claim.
  std::span<HeldRange* const> claim_together();
  /// They have ended; those left `untold` move alone.
  void end_together() noexcept;
  std::span<HeldRange* const> alone() const noexcept { return alone_; }
  /// The claim of one of these; empty if it is not waited for.
  MoveClaim claim_alone(HeldRange& range) const;

 private:
  const bool waits_for_claims_;
  std::deque<HeldRange> ranges_;
  std::vector<std::shared_ptr<Allocation>> allocations_;  // Of those that share a hold.
  std::vector<HeldRange*> together_, alone_;
  std::vector<MoveClaim> claims_;
};

}  // namespace vma
