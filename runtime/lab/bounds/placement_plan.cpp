#include "lab/bounds/placement_plan.hpp"

#include <algorithm>
#include <limits>

namespace vma {
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
