#include "placement/planning/move_history.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace vma {

void MoveHistory::moved(ChunkId chunk, Time now, const PlannerLimits& limits) noexcept try {
  if (limits.thrash_moves == 0) return;
  if (chunks_.size() >= dropped_at_) drop_old(now, limits);
  std::deque<Time> first;
  first.push_back(now);  // Before the entry, which is never without one.
  Past& past = chunks_[chunk];
  if (past.moves.empty()) {
    past.moves = std::move(first);
  } else {
    past.moves.push_back(now);
  }
  while (past.moves.front() < now - limits.thrash_window) past.moves.pop_front();
  if (past.moves.size() >= limits.thrash_moves) {
    past.held_until = now + limits.thrash_pin;
  }
  // Bounded, whatever the limits become later.
  while (past.moves.size() > limits.thrash_moves) past.moves.pop_front();
} catch (const std::bad_alloc&) {  // One move is not counted.
}

Time MoveHistory::held_until(ChunkId chunk) const {
  const auto found = chunks_.find(chunk);
  return found == chunks_.end() ? Time{0} : found->second.held_until;
}

std::uint32_t MoveHistory::recent_moves(ChunkId chunk, Time now,
                                        const PlannerLimits& limits) const {
  const auto found = chunks_.find(chunk);
  if (found == chunks_.end()) return 0;
  return static_cast<std::uint32_t>(std::ranges::count_if(
      found->second.moves, [&](Time moved) { return moved >= now - limits.thrash_window; }));
}

void MoveHistory::drop_old(Time now, const PlannerLimits& limits) {
  std::erase_if(chunks_, [&](const auto& entry) {
    const Past& past = entry.second;
    return past.moves.back() < now - limits.thrash_window && past.held_until <= now;
  });
  dropped_at_ = std::max<std::size_t>(64, chunks_.size() * 2);
}

}  // namespace vma
