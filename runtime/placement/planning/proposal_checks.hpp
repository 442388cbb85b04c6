#pragma once

#include "placement/planning/move_budgets.hpp"
#include "placement/planning/moves_so_far.hpp"
#include "placement/planning/planned_move.hpp"
#include "placement/planning/planner_limits.hpp"
#include "placement/planning/room_fitting.hpp"

#include <vma/policy.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vma {

/// Why one move by itself must be refused, whatever else is in its plan. None if it may be made.
std::optional<MoveRefusal> refuse_move(const Move& move, const Snapshot& snapshot,
                                       const MovesUnderWay& under_way, const MoveHistory& history,
                                       const PlannerLimits& limits);

/// Why a chunk must not move, whatever the target.
std::optional<MoveRefusal> refuse_chunk(ChunkId chunk, const Snapshot& snapshot,
                                        const MovesUnderWay& under_way, const MoveHistory& history,
                                        const PlannerLimits& limits);

/// Whether the chunk can be at `to` and be moved there: there is a way to copy, and each GPU that
/// has used it or may use it reaches the place.
bool can_lie_at(ChunkId chunk, PlaceId to, const Snapshot& snapshot);

/// How much a byte of the chunk is used: bytes per second per byte, by the greater of both
/// averages, and by what a hint announces. So neither recently used chunks nor
/// steadily used ones are cold.
double use_per_byte(ChunkId chunk, const Snapshot& snapshot);

/// Where a chunk may go on the way of a proposal, the fastest for its users first: the budgets
/// allow both legs.
std::vector<PlaceId> third_places(const Proposal& proposal, const Snapshot& snapshot,
                                  MoveBudgets& budgets, const PlannerLimits& limits);

/// Every place that the hottest user of a chunk can reach, the fastest first; for a chunk without
/// users, those that `otherwise` can reach, or all if that is no GPU.
std::vector<PlaceId> places_for(ChunkId chunk, PlaceId otherwise, const Snapshot& snapshot);

}  // namespace vma
