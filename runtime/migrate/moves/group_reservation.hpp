#pragma once

#include "migrate/migration/migration_task.hpp"
#include "migrate/migration/move_parts.hpp"

#include <memory>
#include <span>

namespace vma {

/// Takes the target memory of all tasks, which are one group and none of which has begun; if that
/// fails, each gets its `refusal`. Blocks: while another thread has the claim of one of their
/// allocations, and for room.
void reserve_targets(const MoveParts& parts,
                     std::span<const std::shared_ptr<MigrationTask>> tasks) noexcept;

}  // namespace vma
