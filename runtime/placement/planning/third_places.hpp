#pragma once

#include "placement/planning/move_budgets.hpp"
#include "placement/planning/room_fitting.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace vma {

/// Where a chunk may go on the way of a wish, the fastest for its users first: there and on there
/// are ways that the budgets allow.
std::vector<PlaceId> third_places(const Wish& wish, const Snapshot& snapshot, MoveBudgets& budgets,
                                  const PlannerLimits& limits);

/// Every place that the hottest user of a chunk can reach, the fastest first; of a chunk without
/// users, that `otherwise` can, or all if that is no GPU.
std::vector<PlaceId> places_for(ChunkId chunk, PlaceId otherwise, const Snapshot& snapshot);

}  // namespace vma
