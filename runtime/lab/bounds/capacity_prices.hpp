#pragma once

#include "lab/bounds/epoch_grid.hpp"
#include "lab/bounds/placement_instance.hpp"

#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <vector>

namespace vma {

/// The result of a price search.
struct PricedBound {
  double seconds = -std::numeric_limits<double>::infinity();  ///< No plan within the capacities
                                                              ///< costs less.
  std::vector<double> prices;  ///< [epoch][place], seconds a byte: prices that prove it.
  double step = 1;             ///< The length of the next step, of Polyak's.
};

/// Lagrangian relaxation: the capacities are replaced by a price for room. For any prices the
/// cheapest answer, minus the cost of all room, is a lower bound; subgradient steps of Polyak's
/// length search for prices that maximise it. Deterministic.
class CapacityPrices {
 public:
  /// The cheapest cost at these prices and, in `used`, the bytes at each place: both
  /// [epoch][place].
  using Answer = std::function<double(std::span<const double> prices, std::vector<double>& used)>;

  CapacityPrices(const PlacementInstance& instance, const EpochGrid& grid);

  /// Continues from earlier results. `plan_s`: the cost of some plan, infinite without one. Calls
  /// `answer` at least once and at most `rounds_max` times.
  PricedBound search(const Answer& answer, double plan_s, std::size_t rounds_max,
                     PricedBound best = {}) const;

 private:
  double direction(std::span<const double> prices, std::vector<double>& used) const;

  std::vector<double> capacities_;  // [epoch][place]
};

}  // namespace vma
