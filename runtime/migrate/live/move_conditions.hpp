#pragma once

#include "migrate/migration/migration_task.hpp"
#include "migrate/migration/move_parts.hpp"

#include <vma/migration.hpp>

namespace vma {

/// What must hold for a live move to continue: it is wanted, its memory exists and may move, and
/// the attached streams can be stopped. Only the thread of the move calls it.
class MoveConditions {
 public:
  /// `report` is the one of the move, for the text of a cancellation.
  MoveConditions(const MoveParts& parts, MigrationTask& task, Allocation& allocation,
                 const MigrationReport& report);

  /// Throws: Error{cancelled} if the move was cancelled or its memory is being freed. Blocks: for
  /// good once the process exits.
  void require_going_on() const;
  /// Throws: Error{pinned, poisoned, dropped}, and as `require_going_on`. Blocks: while the
  /// allocation is pinned, until `deadline`, if the options say so.
  void require_movable(TimePoint deadline) const;
  /// Throws: Error{invalid_argument} if an attached stream was destroyed, after waiting for its
  /// work; the streams that are left stay attached.
  void require_streams() const;
  /// Sleeps until the time, or until the move is cancelled. Throws: as `require_going_on`.
  void pause_until(TimePoint time) const;

 private:
  const MoveParts& parts_;
  MigrationTask& task_;
  Clock& clock_;
  Allocation& allocation_;
  const MigrationReport& report_;
};

}  // namespace vma
