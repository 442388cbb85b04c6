#pragma once

#include "lab/bounds/placement_instance.hpp"
#include "lab/bounds/placement_plan.hpp"

#include <span>

namespace vma {

/// A demand-driven plan: chunks used in an epoch move to their cheapest place. If there is no room,
/// the chunks with the furthest next use leave for the place that is cheapest to reach (Belady's
/// rule, which ignores costs). Its `seconds` are infinite if some chunk finds no place.
PlacementPlan plan_by_next_use(const PlacementInstance& instance, const EpochGrid& grid);

/// Finds a plan within the capacities from prices for room: in each epoch each chunk goes where the
/// move and all later costs are lowest at these prices, in order of what chunks lose per byte
/// without their best place. Its `seconds` are infinite if some chunk finds no place.
PlacementPlan plan_at_prices(const PlacementInstance& instance, const EpochGrid& grid,
                             std::span<const double> prices);

}  // namespace vma
