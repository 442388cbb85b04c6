#include "lab/bounds/room_by_epoch.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vma {

double regret(std::span<const double> costs) {
  double best = std::numeric_limits<double>::infinity(), second = best;
  for (const double cost : costs) {
    second = std::min(second, std::max(best, cost));
    best = std::min(best, cost);
  }
  return std::isfinite(best) && costs.size() > 1 ? second - best : 0;
}

RoomByEpoch::RoomByEpoch(const PlacementInstance& instance, const EpochGrid& grid)
    : places_(instance.place_count()) {
  for (std::uint32_t epoch = 0; epoch < grid.epochs; ++epoch)
    free_.insert(free_.end(), instance.capacities.begin(), instance.capacities.end());
}

bool RoomByEpoch::fits(std::size_t place, std::size_t first, std::size_t epochs,
                       std::uint64_t bytes) const {
  for (std::size_t epoch = first; epoch < first + epochs; ++epoch)
    if (free_[epoch * places_ + place] < bytes) return false;
  return true;
}

void RoomByEpoch::take(std::size_t place, std::size_t first, std::size_t epochs,
                       std::uint64_t bytes) {
  for (std::size_t epoch = first; epoch < first + epochs; ++epoch)
    free_[epoch * places_ + place] -= bytes;
}

std::size_t RoomByEpoch::take_best(std::size_t first, std::size_t epochs, std::uint64_t bytes,
                                   std::span<const double> costs) {
  std::size_t best = places_;
  for (std::size_t place = 0; place < places_; ++place) {
    const bool better = best == places_ || costs[place] < costs[best];
    if (better && std::isfinite(costs[place]) && fits(place, first, epochs, bytes)) best = place;
  }
  if (best == places_) return places_ - 1;
  take(best, first, epochs, bytes);
  return best;
}

}  // namespace vma
