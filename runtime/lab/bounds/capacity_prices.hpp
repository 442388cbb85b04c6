#pragma once

#include "lab/bounds/placement_instance.hpp"

#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <vector>

namespace vma {

/// The result of a price search.
struct PricedBound {
  double seconds = -std::numeric_limits<double>::infinity();  ///< A lower bound for all plans
                                                              ///< within the capacities.
  std::vector<double> prices;  ///< [epoch][place], seconds per byte: the prices that prove it.
  double step = 1;             ///< Relaxation factor of the next Polyak step.
};

/// Lagrangian relaxation: prices for room replace the capacities. For any prices, the cheapest
/// answer minus the price of all room is a lower bound. Subgradient steps of Polyak's length search
/// for the prices that maximise it. Deterministic.
class CapacityPrices {
 public:
  /// Returns the cheapest cost at these prices, and writes the bytes at each place to `used`. Both
  /// arguments are [epoch][place].
  using Answer = std::function<double(std::span<const double> prices, std::vector<double>& used)>;

  CapacityPrices(const PlacementInstance& instance, const EpochGrid& grid);

  /// Continues from an earlier result. `plan_s` is the cost of some plan; infinite if none is
  /// known. Calls `answer` between 1 and `rounds_max` times.
  PricedBound search(const Answer& answer, double plan_s, std::size_t rounds_max,
                     PricedBound best = {}) const;

 private:
  double direction(std::span<const double> prices, std::vector<double>& used) const;

  std::vector<double> capacities_;  // [epoch][place]
};

}  // namespace vma
