#pragma once

#include "migrate/migration/migration_parts.hpp"
#include "migrate/migration/requests.hpp"

namespace vma {

/// `Migrator::drop` and `restore`: tell the hooks, and take `operations()`. Throws: Error with the
/// report. `zeroed`: what comes back has zeros; otherwise its contents are undefined. Requires: the
/// calling thread has the allocation's move claim.
MigrationReport drop_contents(MigrationParts& parts, Allocation& allocation, SlotRange range,
                              const MigrateOptions& options);
MigrationReport restore_contents(MigrationParts& parts, Allocation& allocation, SlotRange range,
                                 Place at, bool zeroed);

}  // namespace vma
