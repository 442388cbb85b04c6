#pragma once

#include "memory/allocation.hpp"
#include "migrate/migration/migration_task.hpp"

#include <vma/error.hpp>
#include <vma/migration.hpp>

#include <memory>
#include <optional>

namespace vma {

/// One of several ranges that are asked to move together.
struct RequestedRange {
  std::shared_ptr<Allocation> allocation;
  SlotRange range;
  Location to;
};

/// What became of one.
struct RangeResult {
  MigrationReport report;
  std::optional<Error> error;  ///< None if it moved in full.
};

}  // namespace vma
