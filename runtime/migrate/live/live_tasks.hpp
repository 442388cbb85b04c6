#pragma once

#include "migrate/migration/migration_task.hpp"

#include <vma/migration.hpp>

#include <exception>
#include <memory>

namespace vma {

/// Where a live move gets further migrations from, and where it hands in those that have ended.
class LiveTasks {
 public:
  virtual ~LiveTasks() = default;
  /// A waiting migration that may share gates with `first`, the one that the move began with. The
  /// move has its allocation's claim from now on. Null if there is none.
  virtual std::shared_ptr<MigrationTask> take_beside(const MigrationTask& first) noexcept = 0;
  /// The move takes no more: others may carry out at once what waited to join it.
  virtual void lead_no_longer(const MigrationTask& first) noexcept = 0;
  /// The migration has ended: with this error, or in full if there is none. Takes the claim back.
  /// Requires: nothing is stopped, and the caller does not have the turn for slow calls.
  virtual void ended(std::shared_ptr<MigrationTask> task, MigrationReport report,
                     std::exception_ptr failure) noexcept = 0;
};

}  // namespace vma
