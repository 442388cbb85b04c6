#pragma once

#include "lab/bounds/capacity_prices.hpp"
#include "lab/bounds/epoch_grid.hpp"
#include "lab/bounds/placement_instance.hpp"
#include "lab/bounds/placement_plan.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vma {

/// Each chunk stays at one place for its whole life: the best possible result without moves, with
/// full knowledge of the trace. Borrows the instance.
class BestStatic {
 public:
  BestStatic(const PlacementInstance& instance, const EpochGrid& grid);

  /// No such placement costs less. Uses prices for room, as in `CapacityPrices`.
  PricedBound bound(double plan_s, std::size_t rounds_max);
  /// A placement within the capacities: chunks choose at these prices, starting with those that
  /// lose most per byte if they do not get their best place. Its `seconds` are infinite if some
  /// chunk finds no place.
  PlacementPlan plan(std::span<const double> prices);

 private:
  double answer(std::span<const double> prices, std::vector<double>& used);
  void sum_prices(std::span<const double> prices);
  /// Costs of a chunk, by place, prices included.
  const std::vector<double>& costs(std::size_t chunk);

  const PlacementInstance& instance_;
  const EpochGrid grid_;
  PlacementPlan plan_;
  std::vector<double> sums_;  // [epoch][place]: of the earlier prices.
  std::vector<double> costs_;
};

}  // namespace vma
