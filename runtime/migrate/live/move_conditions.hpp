#pragma once

#include "migrate/gates/gate.hpp"
#include "migrate/live/live_ranges.hpp"
#include "migrate/migration/migration_parts.hpp"

#include <vma/error.hpp>
#include <vma/migration.hpp>

#include <chrono>
#include <functional>
#include <optional>

namespace vma {

/// Thrown where a live move waits: one of its migrations was cancelled or its memory is being
/// freed, so `LiveMigration` ends that one before it continues. Not an error, and handled as none.
struct UnwantedRange {};

/// What must hold for a live move to continue: its migrations are wanted, their memory exists and
/// may move, and the attached streams can be stopped. And how often, how long and how patiently it
/// tries to stop for a batch: the deadline, the gate limit that grows where programs are slow to
/// arrive, and the pauses between tries. Only the thread of the move calls it.
class MoveConditions {
 public:
  MoveConditions(MigrationParts& parts, const LiveRanges& ranges);

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

  // --- Tries to stop
  /// The time by which a batch of the migration whose tries begin now must have begun to move, from
  /// when it was first found pinned if it is.
  TimePoint deadline(const LiveRange& range) const;
  /// The tries for this batch begin.
  void begin_tries(LiveBatch& batch) const;
  /// Blocks: until the stall budget allows a stop; the batch's deadline moves by as much.
  void await_budget(LiveBatch& batch) const;
  /// The next try uses the limit that the tries before it have led to.
  void set_limit(LiveBatch& batch) const { batch.gate_limit = gate_limit_; }
  /// A try was given up; `stopped`: some stream was stopped. Blocks: for the pause before the next
  /// one. Returns the error that ends the migrations of the batch once tries or time are used up:
  /// `busy`, which says what to do about it, or `driver_failure` if a target cannot be switched to.
  std::optional<Error> give_up_or_back_off(LiveBatch& batch, const StopRefusal& refusal,
                                           bool stopped);

 private:
  void widen_limit(const StopRefusal& refusal, bool stopped) noexcept;
  void back_off(bool may_be_cut, int attempt) const;

  MigrationParts& parts_;
  Clock& clock_;
  const LiveRanges& ranges_;
  std::chrono::nanoseconds gate_limit_;  // For the next try; see MigratorLimits::gate_limit_max.
};

}  // namespace vma
