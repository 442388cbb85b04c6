#pragma once

#include "placement/planning/move_budgets.hpp"
#include "placement/planning/room_fitting.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace vma {

/// Where a chunk may go on the way of a wish, the fastest for its users first: the budgets allow
/// both legs.
std::vector<PlaceId> third_places(const Wish& wish, const Snapshot& snapshot, MoveBudgets& budgets,
                                  const PlannerLimits& limits);

/// Every place that the hottest user of a chunk can reach, the fastest first; for a chunk without
/// users, those that `otherwise` can reach, or all if that is no GPU.
std::vector<PlaceId> places_for(ChunkId chunk, PlaceId otherwise, const Snapshot& snapshot);

}  // namespace vma
