#pragma once

#include "memory/allocation.hpp"
#include "migrate/migration/callbacks.hpp"
#include "migrate/migration/migration_task.hpp"
#include "migrate/migration/move_notices.hpp"
#include "migrate/migration/transaction.hpp"

#include <vma/migration.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>

namespace vma {

/// One migration of a held move: what it is to move, how far it is, and what became of it. One
/// thread at a time, which has the allocation's move claim.
struct HeldRange {
  /// Throws: std::bad_alloc.
  HeldRange(Allocation& allocation, SlotRange range, Location to, MigrationTask* task = nullptr);

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
  /// Adds the report to the failure, and says it if the process has too many mappings. Requires:
  /// nothing is stopped, since that takes long to find out.
  void word_failure() noexcept;

  Allocation& allocation;
  const SlotRange range;
  const Location to;
  MigrationTask* const task;  ///< Null if a caller waits.
  /// Of a caller that waits; may be empty.
  std::function<void(const MigrationProgress&)> on_progress;
  /// What its hooks are told; null if they need not be.
  MoveNotices* notices = nullptr;
  /// Target memory that was taken before; null if none can have been.
  ReservedTargets* reserved = nullptr;

  // --- What became of it.
  MigrationReport report;
  /// Null unless it failed. An Error with the report, except where the host has no memory for one.
  std::exception_ptr failure;
  bool begun = false;  ///< It was allowed to move, so that it counts as a migration.
  bool untold =
      false;  ///< A hook was added that was told of nothing: not begun, to be tried again.

  // --- During a move; only `HeldMove` and its parts use it.
  std::deque<Transaction> transactions;  ///< In order of their slots.
  std::size_t end = SIZE_MAX;            ///< Its chunks from this place in the order on stay.
  /// Why a chunk has no target although all were to be created: it fails once those before it have
  /// moved.
  std::exception_ptr no_target;
  /// Why the first chunk without a copy was not copied ahead of the hold, in its last try.
  std::exception_ptr not_copied;
};

/// A chunk's place in the order in which a held move copies and switches all of them.
struct HeldTurn {
  HeldRange* range = nullptr;
  Transaction* transaction = nullptr;
};

}  // namespace vma
