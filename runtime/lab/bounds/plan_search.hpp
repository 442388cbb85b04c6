#pragma once

#include "lab/bounds/epoch_grid.hpp"
#include "lab/bounds/placement_instance.hpp"
#include "lab/bounds/placement_plan.hpp"

#include <span>
#include <vector>

namespace vma {

/// A plan that keeps to the capacities, from prices for room: epoch by epoch each chunk goes where
/// the move there and all that comes after cost least at these prices, those first that lose most a
/// byte if they cannot. Its `seconds` are infinite if some chunk finds no place.
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
  std::vector<float> ahead_;  // [chunk's epoch][place]: from this epoch on.
  std::vector<double> costs_;
};

}  // namespace vma
