#pragma once

#include "placement/planning/move_history.hpp"
#include "placement/planning/moves_under_way.hpp"
#include "placement/planning/planner_limits.hpp"
#include "placement/planning/rejection.hpp"

#include <vma/policy.hpp>

#include <optional>

namespace vma {

/// What can be said against one move, whatever else is in its plan. Nothing if it may be made.
std::optional<Refusal> refuse_move(const Move& move, const Snapshot& snapshot,
                                   const MovesUnderWay& under_way, const MoveHistory& history,
                                   const PlannerLimits& limits);

/// The same of a chunk, wherever it is to go.
std::optional<Refusal> refuse_chunk(ChunkId chunk, const Snapshot& snapshot,
                                    const MovesUnderWay& under_way, const MoveHistory& history,
                                    const PlannerLimits& limits);

/// Whether the chunk can lie at `to` and be taken there: a way to copy, and in reach of each GPU
/// that has used it or may use it.
bool can_lie_at(ChunkId chunk, PlaceId to, const Snapshot& snapshot);

/// How much a byte of the chunk is used: bytes a second a byte, by the greater of both averages,
/// and by what a hint announces. What has only just been used is not cold, nor is what mostly is.
double use_per_byte(ChunkId chunk, const Snapshot& snapshot);

}  // namespace vma
