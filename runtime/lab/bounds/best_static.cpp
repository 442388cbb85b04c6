#include "lab/bounds/best_static.hpp"

#include "lab/bounds/placement_plan.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace vma {

BestStatic::BestStatic(const PlacementInstance& instance, const EpochGrid& grid)
    : instance_(instance), grid_(grid), plan_(instance, grid), costs_(instance.place_count()) {}

PricedBound BestStatic::bound(double plan_s, std::size_t rounds_max) {
  return CapacityPrices(instance_, grid_)
      .search([this](std::span<const double> prices,
                     std::vector<double>& used) { return answer(prices, used); },
              plan_s, rounds_max);
}

void BestStatic::sum_prices(std::span<const double> prices) {
  const std::size_t places = instance_.place_count();
  sums_.assign((grid_.epochs + 1) * places, 0);
  for (std::size_t i = 0; i < prices.size(); ++i) sums_[i + places] = sums_[i] + prices[i];
}

const std::vector<double>& BestStatic::costs(std::size_t number) {
  const PlacementChunk& chunk = instance_.chunks[number];
  const std::size_t places = instance_.place_count();
  const std::size_t first = grid_.first_end(chunk);
  const std::size_t end = std::max<std::size_t>(first, grid_.end(chunk));
  for (std::size_t place = 0; place < places; ++place) {
    costs_[place] = plan_.cost_to_begin(number, place) +
                    static_cast<double>(chunk.bytes) *
                        (sums_[end * places + place] - sums_[first * places + place]);
  }
  for (std::size_t use = chunk.first_use; use < chunk.first_use + chunk.uses; ++use) {
    const std::span<const double> row = instance_.row(use);
    for (std::size_t place = 0; place < places; ++place) costs_[place] += row[place];
  }
  return costs_;
}

double BestStatic::answer(std::span<const double> prices, std::vector<double>& used) {
  sum_prices(prices);
  const std::size_t places = instance_.place_count();
  used.assign((grid_.epochs + 1) * places, 0);
  double seconds = instance_.floor_s;
  for (std::size_t chunk = 0; chunk < instance_.chunks.size(); ++chunk) {
    const std::vector<double>& by_place = costs(chunk);
    // Ties go to the last place: hosts have room.
    const auto best = std::ranges::min_element(by_place.rbegin(), by_place.rend());
    seconds += *best;
    const auto place = static_cast<std::size_t>(by_place.rend() - best - 1);
    const std::size_t first = grid_.first_end(instance_.chunks[chunk]);
    const std::size_t end = grid_.end(instance_.chunks[chunk]);
    if (first >= end) continue;
    const auto bytes = static_cast<double>(instance_.chunks[chunk].bytes);
    used[first * places + place] += bytes;
    used[end * places + place] -= bytes;
  }
  for (std::size_t i = places; i < used.size(); ++i) used[i] += used[i - places];
  used.resize(grid_.epochs * places);
  return seconds;
}

PlacementPlan BestStatic::plan(std::span<const double> prices) {
  sum_prices(prices);
  PlacementPlan plan = plan_;
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t chunk = 0; chunk < instance_.chunks.size(); ++chunk) {
    order.emplace_back(-regret(costs(chunk)) / static_cast<double>(instance_.chunks[chunk].bytes),
                       chunk);
  }
  std::ranges::sort(order);
  RoomByEpoch room(instance_, grid_);
  for (const auto& [loss, chunk] : order) {
    const std::size_t place = room.take_best(plan.first(chunk), plan.epochs(chunk),
                                             instance_.chunks[chunk].bytes, costs(chunk));
    std::ranges::fill(plan.places(chunk), static_cast<std::uint8_t>(place));
  }
  return plan;
}

}  // namespace vma
