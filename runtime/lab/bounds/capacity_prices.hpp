#pragma once

#include "lab/bounds/epoch_grid.hpp"
#include "lab/bounds/placement_instance.hpp"

#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <vector>

namespace vma {

/// What a price search has found.
struct PricedBound {
  double seconds = -std::numeric_limits<double>::infinity();  ///< No plan within the capacities
                                                              ///< costs less.
  std::vector<double> prices;  ///< [epoch][place], seconds a byte: those that show it.
  double step = 1;             ///< The length of the next step, of Polyak's.
};

/// Lagrangian relaxation: instead of keeping to the capacities one pays for room. For any prices
/// the cheapest answer, less what all room costs, is a lower bound; subgradient steps of Polyak's
/// length look for prices that make it large. Deterministic.
class CapacityPrices {
 public:
  /// The cheapest cost at these prices and, in `used`, the bytes at each place: both
  /// [epoch][place].
  using Answer = std::function<double(std::span<const double> prices, std::vector<double>& used)>;

  CapacityPrices(const PlacementInstance& instance, const EpochGrid& grid);

  /// Goes on from what was found before. `plan_s`: what some plan costs, infinite without one.
  /// Never asks more than `rounds_max` times, once at least.
  PricedBound search(const Answer& answer, double plan_s, std::size_t rounds_max,
                     PricedBound best = {}) const;

 private:
  double direction(std::span<const double> prices, std::vector<double>& used) const;

  std::vector<double> capacities_;  // [epoch][place]
};

}  // namespace vma
