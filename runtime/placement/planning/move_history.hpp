#pragma once

#include "placement/planning/planner_limits.hpp"

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>

namespace vma {

/// Who moved when, as far back as the planner's rule against thrashing looks.
class MoveHistory {
 public:
  /// Where there is no memory for it, it is forgotten.
  void moved(ChunkId chunk, Time now, const PlannerLimits& limits) noexcept;
  void forget(ChunkId chunk) { chunks_.erase(chunk); }

  /// Until when the chunk stays where it is because it moved to and fro; 0 if it did not.
  Time held_until(ChunkId chunk) const;
  /// Its moves within the window.
  std::uint32_t recent_moves(ChunkId chunk, Time now, const PlannerLimits& limits) const;
  /// Chunks that something is kept of. Bounded by the moves of the last window and pin.
  std::size_t size() const noexcept { return chunks_.size(); }

 private:
  struct Past {
    std::deque<Time> moves;  // Within the window before the last.
    Time held_until{0};
  };
  void drop_old(Time now, const PlannerLimits& limits);

  std::unordered_map<ChunkId, Past> chunks_;
  std::size_t dropped_at_ = 64;  // Old ones are looked for when there are so many.
};

}  // namespace vma
