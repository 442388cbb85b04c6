#pragma once

#include "placement/planning/planner_limits.hpp"

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>

namespace vma {

/// Which chunk moved when, as far back as the planner's rule against thrashing looks.
class MoveHistory {
 public:
  /// If there is no memory for it, the move is forgotten.
  void moved(ChunkId chunk, Time now, const PlannerLimits& limits) noexcept;
  void forget(ChunkId chunk) { chunks_.erase(chunk); }

  /// Until when the chunk is kept in place because it moved to and fro; 0 if it did not.
  Time held_until(ChunkId chunk) const;
  /// Number of its moves within the window.
  std::uint32_t recent_moves(ChunkId chunk, Time now, const PlannerLimits& limits) const;
  /// Number of chunks with a history. Bounded by the moves of the last window and pin.
  std::size_t size() const noexcept { return chunks_.size(); }

 private:
  struct Past {
    std::deque<Time> moves;  // Within the window before the last move.
    Time held_until{0};
  };
  void drop_old(Time now, const PlannerLimits& limits);

  std::unordered_map<ChunkId, Past> chunks_;
  std::size_t dropped_at_ = 64;  // Old ones are looked for at this size.
};

}  // namespace vma
