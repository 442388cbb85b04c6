#include "lab/bounds/placement_plan.hpp"

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

PlacementPlan::PlacementPlan(const PlacementInstance& instance, const EpochGrid& grid)
    : instance_(instance), grid_(grid), begins_{0} {
  for (const PlacementChunk& chunk : instance.chunks) {
    firsts_.push_back(grid.of(chunk.begin));
    begins_.push_back(begins_.back() + grid.life(instance, chunk));
  }
  places_.resize(begins_.back());
}

void PlacementPlan::costs(std::size_t number, std::vector<double>& costs) const {
  const std::size_t places = instance_.place_count();
  costs.assign(epochs(number) * places, 0);
  const PlacementChunk& chunk = instance_.chunks[number];
  for (std::size_t use = chunk.first_use; use < chunk.first_use + chunk.uses; ++use) {
    const std::size_t epoch = grid_.of(instance_.uses[use].block) - first(number);
    const std::span<const double> row = instance_.row(use);
    for (std::size_t place = 0; place < places; ++place)
      costs[epoch * places + place] += row[place];
  }
}

double PlacementPlan::cost_to_begin(std::size_t number, std::size_t place) const {
  const PlacementChunk& chunk = instance_.chunks[number];
  double least = impossible;
  for (std::size_t from = 0; from < instance_.place_count(); ++from) {
    if ((chunk.begin_places >> from & 1) != 0)
      least = std::min(least, instance_.moves_of(chunk).direct(from, place));
  }
  return least;
}

double PlacementPlan::seconds() {
  if (!fits()) return impossible;
  const std::size_t count = instance_.place_count();
  std::vector<double> uses;
  double seconds = instance_.floor_s;
  for (std::size_t chunk = 0; chunk < instance_.chunks.size(); ++chunk) {
    const MoveTable& moves = instance_.moves_of(instance_.chunks[chunk]);
    const std::span<const std::uint8_t> at = places(chunk);
    costs(chunk, uses);
    seconds += cost_to_begin(chunk, at[0]);
    for (std::size_t epoch = 0; epoch < at.size(); ++epoch) {
      seconds += uses[epoch * count + at[epoch]];
      if (epoch > 0) seconds += moves.direct(at[epoch - 1], at[epoch]);
    }
  }
  return seconds;
}

bool PlacementPlan::fits() {
  const std::size_t count = instance_.place_count();
  std::vector<std::uint64_t> lies(grid_.epochs * count);
  for (std::size_t chunk = 0; chunk < instance_.chunks.size(); ++chunk) {
    const std::span<const std::uint8_t> at = places(chunk);
    for (std::size_t epoch = 0; epoch < at.size(); ++epoch)
      lies[(first(chunk) + epoch) * count + at[epoch]] += instance_.chunks[chunk].bytes;
  }
  for (std::size_t i = 0; i < lies.size(); ++i)
    if (lies[i] > instance_.capacities[i % count]) return false;
  return true;
}

}  // namespace vma
