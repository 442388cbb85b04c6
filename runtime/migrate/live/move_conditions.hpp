#pragma once

#include "migrate/live/live_ranges.hpp"
#include "migrate/migration/move_parts.hpp"

#include <functional>

namespace vma {

/// Thrown where a live move waits: one of its migrations was cancelled or its memory is being
/// freed, so `LiveMove` ends that one before it continues. Not an error, and handled as none.
struct UnwantedRange {};

/// What must hold for a live move to continue: its migrations are wanted, their memory exists and
/// may move, and the attached streams can be stopped. Only the thread of the move calls it.
class MoveConditions {
 public:
  MoveConditions(const MoveParts& parts, const LiveRanges& ranges);

  /// Throws: UnwantedRange. Blocks: for good once the process exits.
  void require_going_on() const;
  /// Whether the allocation may move; false after a pause of a millisecond if it is pinned and the
  /// options say to wait until `deadline`. Throws: Error{pinned, poisoned, dropped}, and as
  /// `require_going_on`.
  bool movable(const LiveRange& range, TimePoint deadline) const;
  /// Throws: as `movable`. Blocks: while that is false.
  void require_movable(const LiveRange& range, TimePoint deadline) const;
  /// Throws: Error{invalid_argument} if an attached stream was destroyed, after waiting for its
  /// work; the streams that are left stay attached.
  void require_streams(const LiveRange& range) const;
  /// Sleeps until the time, or until a migration is no longer wanted. Throws: as
  /// `require_going_on`. Requires: the move has a migration.
  void pause_until(TimePoint time) const;
  /// The same, until the time that `allowed` returns, which may change meanwhile.
  void await(const std::function<TimePoint(TimePoint now)>& allowed) const;

 private:
  const MoveParts& parts_;
  Clock& clock_;
  const LiveRanges& ranges_;
};

}  // namespace vma
