#pragma once

#include "placement/planning/moves_so_far.hpp"
#include "placement/planning/planned_move.hpp"
#include "placement/planning/planner_limits.hpp"

#include <vma/policy.hpp>

#include <optional>

namespace vma {

/// Why one move by itself must be refused, whatever else is in its plan. None if it may be made.
std::optional<Refusal> refuse_move(const Move& move, const Snapshot& snapshot,
                                   const MovesUnderWay& under_way, const MoveHistory& history,
                                   const PlannerLimits& limits);

/// Why a chunk must not move, whatever the target.
std::optional<Refusal> refuse_chunk(ChunkId chunk, const Snapshot& snapshot,
                                    const MovesUnderWay& under_way, const MoveHistory& history,
                                    const PlannerLimits& limits);

/// Whether the chunk can be at `to` and be moved there: there is a way to copy, and each GPU that
/// has used it or may use it reaches the place.
bool can_lie_at(ChunkId chunk, PlaceId to, const Snapshot& snapshot);

/// How much a byte of the chunk is used: bytes per second per byte, by the greater of both
/// averages, and by what a hint announces. So neither recently used chunks nor
/// steadily used ones are cold.
double use_per_byte(ChunkId chunk, const Snapshot& snapshot);

}  // namespace vma
