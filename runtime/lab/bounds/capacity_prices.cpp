#include "lab/bounds/capacity_prices.hpp"

#include <algorithm>
#include <cmath>

namespace vma {
namespace {

constexpr std::size_t stale_max = 2;   // Rounds without a better bound; then returns to the best
                                       // prices.
constexpr double shorter = 0.5;        // Step factor when it returns.
constexpr double longer = 1.25;        // Step factor after a better bound.
constexpr double close_enough = 1e-6;  // Relative to the plan.
constexpr double hoped_for = 0.05;  // Without a plan: how far the target is above the best bound.
constexpr double least_step = 1.0 / 4096;  // Smaller steps improve nothing.

}  // namespace

CapacityPrices::CapacityPrices(const PlacementInstance& instance, const EpochGrid& grid) {
  for (std::uint32_t epoch = 0; epoch < grid.epochs; ++epoch)
    capacities_.insert(capacities_.end(), instance.capacities.begin(), instance.capacities.end());
}

PricedBound CapacityPrices::search(const Answer& answer, double plan_s, std::size_t rounds_max,
                                   PricedBound best) const {
  best.prices.resize(capacities_.size(), 0);
  std::vector<double> prices = best.prices, used, best_used;
  std::size_t stale = 0;
  for (std::size_t round = 1;; ++round) {
    double bound = answer(prices, used);
    for (std::size_t i = 0; i < prices.size(); ++i) bound -= prices[i] * capacities_[i];
    if (bound > best.seconds) {
      best.seconds = bound;
      best.prices = prices;
      best_used = used;
      best.step = std::min(best.step * longer, 1.0);
      stale = 0;
    } else if (++stale >= stale_max && !best_used.empty()) {
      bound = best.seconds;
      prices = best.prices;
      used = best_used;
      best.step *= shorter;
      stale = 0;
    }
    const double length = direction(prices, used);
    const double target =
        std::isfinite(plan_s) ? plan_s : best.seconds + hoped_for * std::abs(best.seconds);
    const bool over = length <= 0 || target - best.seconds <= close_enough * target;
    if (over || best.step < least_step || round >= rounds_max) return best;
    const double scale = best.step * std::max(target - bound, 0.0) / length;
    for (std::size_t i = 0; i < prices.size(); ++i)
      prices[i] = std::max(prices[i] + scale * used[i], 0.0);
  }
}

/// Turns `used` into a direction: the excess over the capacities, but 0 where the price is 0 and
/// there is room. Returns the square of its length.
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
