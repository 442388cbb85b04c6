#pragma once

#include "lab/bounds/capacity_prices.hpp"
#include "lab/bounds/placement_instance.hpp"
#include "lab/bounds/placement_plan.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vma {

/// The best possible placement without moves, with full knowledge of the trace: each chunk stays at
/// one place for its whole life. Borrows the instance.
class BestStatic {
 public:
  BestStatic(const PlacementInstance& instance, const EpochGrid& grid);

  /// A lower bound for the cost of such placements. Uses prices for room, as in `CapacityPrices`.
  PricedBound bound(double plan_s, std::size_t rounds_max);
  /// A placement within the capacities: chunks choose their places at these prices, in order of
  /// what they lose per byte without their best place. Its `seconds` are infinite if some chunk
  /// finds no place.
  PlacementPlan plan(std::span<const double> prices);

 private:
  double answer(std::span<const double> prices, std::vector<double>& used);
  void sum_prices(std::span<const double> prices);
  /// The costs of a chunk at each place, including prices.
  const std::vector<double>& costs(std::size_t chunk);

  const PlacementInstance& instance_;
  const EpochGrid grid_;
  PlacementPlan plan_;
  std::vector<double> sums_;  // [epoch][place]: sums of all earlier prices.
  std::vector<double> costs_;
};

}  // namespace vma
