#pragma once

#include "migrate/live/live_chunk.hpp"
#include "migrate/live/live_way.hpp"
#include "migrate/migration/move_parts.hpp"

#include <optional>

namespace vma {

/// Chooses how each chunk of a live move moves (`choose_way`), by the streams that are attached
/// now. Only the thread of the move calls it.
class WayChooser {
 public:
  explicit WayChooser(const MoveParts& parts) : parts_(parts) {}

  WayChoice choose(const LiveChunk& chunk) const;
  /// Throws: Error{unsupported} if the chunk cannot move in the way that was chosen for it.
  static void require(const LiveChunk& chunk);
  /// Whether the next chunks move at gates, since all streams would arrive soon.
  /// Blocks and requires: as `Stops::gate_arrives_soon`, once.
  bool foresee_gates(const LiveChunk& chunk);
  /// A gate was given up: the next chunks move in suspensions or under holds.
  void leave_gates() noexcept { gates_arrive_soon_ = false; }

 private:
  bool may_suspend(const LiveChunk& chunk) const;
  bool may_hold() const;
  bool has_streams(const LiveChunk& chunk) const;
  StopKind stop_for(const LiveChunk& chunk) const;

  const MoveParts& parts_;
  std::optional<bool> gates_arrive_soon_;  // Until then none is tried where others can stop.
};

}  // namespace vma
