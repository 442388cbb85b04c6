#include "lab/capacity_prices.hpp"

#include <algorithm>
#include <cmath>

namespace vma {
namespace {

constexpr std::size_t stale_max = 4;      // Rounds without a better bound, then steps are halved.
constexpr double close_enough = 1e-6;     // Of the plan.
constexpr double hoped_for = 0.05;        // Without a plan: above the best bound.
constexpr double least_step = 1.0 / 256;  // Below that nothing is found any more.

}  // namespace

CapacityPrices::CapacityPrices(const PlacementInstance& instance, const EpochGrid& grid) {
  for (std::uint32_t epoch = 0; epoch < grid.epochs; ++epoch)
    capacities_.insert(capacities_.end(), instance.capacities.begin(), instance.capacities.end());
}

PricedBound CapacityPrices::search(const Answer& answer, double plan_s,
                                   std::size_t rounds_max) const {
  std::vector<double> prices(capacities_.size(), 0), used;
  PricedBound best{-std::numeric_limits<double>::infinity(), prices, 0};
  double step = 1;
  std::size_t stale = 0;
  do {
    double bound = answer(prices, used);
    for (std::size_t i = 0; i < prices.size(); ++i) bound -= prices[i] * capacities_[i];
    ++best.rounds;
    if (bound > best.seconds) {
      best.seconds = bound;
      best.prices = prices;
      stale = 0;
    } else if (++stale >= stale_max) {
      step /= 2;
      stale = 0;
    }
    const double length = direction(prices, used);
    const double target =
        std::isfinite(plan_s) ? plan_s : best.seconds + hoped_for * std::abs(best.seconds);
    if (length <= 0 || target - best.seconds <= close_enough * target || step < least_step) break;
    const double scale = step * std::max(target - bound, 0.0) / length;
    for (std::size_t i = 0; i < prices.size(); ++i)
      prices[i] = std::max(prices[i] + scale * used[i], 0.0);
  } while (best.rounds < rounds_max);
  return best;
}

/// Makes of `used` what is above the capacities, and of places that cost nothing and have room
/// nothing. The square of its length.
double CapacityPrices::direction(std::span<const double> prices, std::vector<double>& used) const {
  double length = 0;
  for (std::size_t i = 0; i < used.size(); ++i) {
    used[i] -= capacities_[i];
    if (prices[i] <= 0 && used[i] < 0) used[i] = 0;
    length += used[i] * used[i];
  }
  return length;
}

}  // namespace vma
