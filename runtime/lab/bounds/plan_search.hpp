#pragma once

#include "lab/bounds/epoch_grid.hpp"
#include "lab/bounds/placement_instance.hpp"
#include "lab/bounds/placement_plan.hpp"

#include <span>
#include <vector>

namespace vma {

/// Finds a plan within the capacities from prices for room: in each epoch each chunk goes where the
/// move and all later costs are lowest at these prices, in order of what chunks lose per byte
/// without their best place. Its `seconds` are infinite if some chunk finds no place.
class PlanSearch {
 public:
  PlanSearch(const PlacementInstance& instance, const EpochGrid& grid,
             std::span<const double> prices);

  PlacementPlan run();

 private:
  void look_ahead(std::size_t chunk, std::span<const double> prices);
  void choose(std::size_t epoch, std::size_t chunk);

  const PlacementInstance& instance_;
  const EpochGrid grid_;
  const std::size_t places_;
  PlacementPlan plan_;
  std::vector<float> ahead_;  // [chunk's epoch][place]: the cost from this epoch on.
  std::vector<double> costs_;
};

}  // namespace vma
