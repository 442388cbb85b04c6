#pragma once

#include "memory/allocation.hpp"

#include <vma/error.hpp>
#include <vma/migration.hpp>

namespace vma {

/// The error with the report of the migration that it ended; of kind `poisoned` if the report says
/// that the allocation lost a slot.
Error migration_error(const Error& error, const MigrationReport& report,
                      const Allocation& allocation);

}  // namespace vma
