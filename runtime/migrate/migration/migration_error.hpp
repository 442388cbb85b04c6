#pragma once

#include "memory/allocation.hpp"
#include "migrate/migration/requests.hpp"

#include <vma/error.hpp>
#include <vma/migration.hpp>

#include <exception>

namespace vma {

/// The error with the report of the migration that it ended; of kind `poisoned` if the report says
/// that the allocation lost a slot.
Error migration_error(const Error& error, const MigrationReport& report,
                      const Allocation& allocation);

/// The errors in which migrations end, whatever is thrown: made so that a migration can always say
/// how it ended, even if the host has no memory. Any thread.
class MigrationErrors {
 public:
  /// `call` is the public call that the errors name.
  explicit MigrationErrors(const char* call);

  /// Allocates only for better words, and says it if the process has too many mappings. Requires:
  /// `failure` is not null; nothing is stopped, since to find that out takes long.
  Error of(const std::exception_ptr& failure, const MigrationReport& report,
           const Allocation& allocation) const noexcept;

 private:
  const char* const call_;
  // Copying them needs no memory.
  const Error no_memory_, lost_slot_;
};

/// The outcome of a migration that failed: whether it has moved anything.
Outcome outcome_of_failure(const MigrationReport& report) noexcept;
/// The outcome of a migration that ended in this error.
Outcome outcome_of(const Error& error, const MigrationReport& report) noexcept;

/// Throws: Error{pinned} that says why the allocation may not move.
void require_no_pin(const Allocation& allocation, const char* call);
/// The same for a move that the processes that have imported the memory follow.
void require_not_kept(const Allocation& allocation, const char* call);
/// Throws: Error{unreachable} that names a process that has imported the memory, and cannot follow
/// it there.
void require_importers_follow(const Allocation& allocation, Place to, const char* call);
/// Throws: Error{poisoned} if the allocation has lost a slot.
void require_no_loss(const Allocation& allocation, const char* call);
/// Throws: Error{dropped} if a slot of the range has no memory. The answer does not change while
/// the move claim is held.
void require_contents(const Allocation& allocation, SlotRange range, const char* call);

}  // namespace vma
