#pragma once

#include "memory/allocation.hpp"
#include "migrate/migration/migration_task.hpp"

#include <vma/error.hpp>
#include <vma/migration.hpp>

namespace vma {

/// The error with the report of the migration that it ended; of kind `poisoned` if the report says
/// that the allocation lost a slot.
Error migration_error(const Error& error, const MigrationReport& report,
                      const Allocation& allocation);

/// Throws: Error{pinned} that says why the allocation may not move.
void require_no_pin(const Allocation& allocation, const char* call);
/// Throws: Error{poisoned} if the allocation has lost a slot.
void require_no_loss(const Allocation& allocation, const char* call);
/// Throws: Error{dropped} if a slot of the range has no memory. The answer does not change while
/// the move claim is held.
void require_contents(const Allocation& allocation, SlotRange range, const char* call);

}  // namespace vma
