#pragma once

#include "migrate/gates/gate.hpp"
#include "migrate/live/live_chunk.hpp"
#include "migrate/live/move_conditions.hpp"
#include "migrate/migration/move_parts.hpp"

#include <vma/error.hpp>
#include <vma/migration.hpp>

#include <chrono>
#include <optional>

namespace vma {

/// How often, how long and how patiently a live move tries to stop for a batch: the deadline, the
/// gate limit that grows where programs are slow to arrive, and the pauses between tries. Only the
/// thread of the move calls it.
class StopTries {
 public:
  StopTries(const MoveParts& parts, const MoveConditions& conditions);

  /// The time by which a batch of the migration whose tries begin now must have begun to move, from
  /// when it was first found pinned if it is.
  TimePoint deadline(const LiveRange& range) const;
  /// The tries for this batch begin.
  void begin(LiveBatch& batch) const;
  /// Blocks: until the stall budget allows a stop; the batch's deadline moves by as much.
  void await_budget(LiveBatch& batch) const;
  /// The next try uses the limit that the tries before it have led to.
  void set_limit(LiveBatch& batch) const { batch.gate_limit = gate_limit_; }
  /// A try was given up; `stood`: some stream was stopped. Blocks: for the pause before the next
  /// one. Returns the error that ends the migrations of the batch once tries or time are used up:
  /// `busy`, which says what to do about it, or `driver_failure` if a target cannot be switched to.
  std::optional<Error> give_up_or_back_off(LiveBatch& batch, const GateRefusal& refusal,
                                           bool stood);

 private:
  void widen_limit(const GateRefusal& refusal, bool stood) noexcept;
  void back_off(bool may_be_cut, int attempt) const;

  const MoveParts& parts_;
  Clock& clock_;
  const MoveConditions& conditions_;
  std::chrono::nanoseconds gate_limit_;  // For the next try; see MoverLimits::gate_limit_max.
};

}  // namespace vma
