#include "lab/bounds/furthest_next_use.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace vma {

FurthestNextUse::FurthestNextUse(const PlacementInstance& instance, const EpochGrid& grid)
    : instance_(instance),
      grid_(grid),
      places_(instance.place_count()),
      plan_(instance, grid),
      room_(instance, grid),
      born_(grid.epochs),
      used_(grid.epochs),
      victims_(places_),
      placed_(instance.chunks.size(), false),
      costs_(places_) {
  for (std::size_t chunk = 0; chunk < instance.chunks.size(); ++chunk) {
    next_.push_back(instance.chunks[chunk].first_use);
    born_[plan_.first(chunk)].push_back(chunk);
  }
  for (const PlacementUse& use : instance.uses) {
    std::vector<std::size_t>& users = used_[grid.of(use.block)];
    if (users.empty() || users.back() != use.chunk) users.push_back(use.chunk);
  }
}

PlacementPlan FurthestNextUse::run() {
  for (std::size_t epoch = 0; epoch < grid_.epochs; ++epoch) {
    begin_epoch(epoch);
    for (const std::size_t chunk : used_[epoch]) bring(chunk, epoch);
    for (const std::size_t chunk : born_[epoch])
      if (!placed_[chunk]) bring(chunk, epoch);
    live_.insert(live_.end(), born_[epoch].begin(), born_[epoch].end());
  }
  return std::move(plan_);
}

/// Live chunks stay where they were; the others leave.
void FurthestNextUse::begin_epoch(std::size_t epoch) {
  for (auto& victims : victims_) victims.clear();
  std::erase_if(
      live_, [&](std::size_t chunk) { return plan_.first(chunk) + plan_.epochs(chunk) <= epoch; });
  for (const std::size_t chunk : live_) {
    if (!placed_[chunk]) continue;
    const std::size_t place = place_of(chunk, epoch - 1);
    settle(chunk, place, epoch);
    victims_[place].emplace(next_use(chunk), chunk);
  }
}

void FurthestNextUse::settle(std::size_t chunk, std::size_t place, std::size_t epoch) {
  room_.take(place, epoch, 1, instance_.chunks[chunk].bytes);
  place_of(chunk, epoch) = static_cast<std::uint8_t>(place);
  placed_[chunk] = true;
}

void FurthestNextUse::leave(std::size_t chunk, std::size_t epoch) {
  room_.give(place_of(chunk, epoch), epoch, instance_.chunks[chunk].bytes);
}

std::uint32_t FurthestNextUse::next_use(std::size_t number) const {
  const PlacementChunk& chunk = instance_.chunks[number];
  if (next_[number] == chunk.first_use + chunk.uses) return never_used;
  return grid_.of(instance_.uses[next_[number]].block);
}

void FurthestNextUse::take_uses(std::size_t chunk, std::size_t epoch) {
  std::ranges::fill(costs_, 0);
  for (; next_use(chunk) == epoch; ++next_[chunk]) {
    const std::span<const double> row = instance_.row(next_[chunk]);
    for (std::size_t place = 0; place < places_; ++place) costs_[place] += row[place];
  }
}

/// Chunks already used in this epoch do not become victims again.
void FurthestNextUse::bring(std::size_t chunk, std::size_t epoch) {
  const std::uint64_t bytes = instance_.chunks[chunk].bytes;
  if (placed_[chunk]) victims_[place_of(chunk, epoch)].erase({next_use(chunk), chunk});
  take_uses(chunk, epoch);
  const bool fresh = !placed_[chunk];
  if (fresh) {
    for (std::size_t place = 0; place < places_; ++place)
      costs_[place] += plan_.cost_to_begin(chunk, place);
  }
  const auto best = static_cast<std::size_t>(std::ranges::min_element(costs_) - costs_.begin());
  if (!fresh && place_of(chunk, epoch) == best) return;
  const bool way =
      fresh ||
      std::isfinite(
          instance_.moves_of(instance_.chunks[chunk]).direct(place_of(chunk, epoch), best));
  if (way && make_room(best, epoch, bytes)) {
    if (!fresh) leave(chunk, epoch);
    settle(chunk, best, epoch);
  } else if (fresh) {
    place_of(chunk, epoch) = static_cast<std::uint8_t>(room_.take_best(epoch, 1, bytes, costs_));
    placed_[chunk] = true;
  }
}

bool FurthestNextUse::make_room(std::size_t place, std::size_t epoch, std::uint64_t bytes) {
  while (!room_.fits(place, epoch, 1, bytes)) {
    if (victims_[place].empty()) return false;
    const auto last = std::prev(victims_[place].end());
    const auto [next, victim] = *last;
    if (next <= epoch) return false;
    const std::uint64_t size = instance_.chunks[victim].bytes;
    const MoveTable& moves = instance_.moves_of(instance_.chunks[victim]);
    std::size_t to = places_;
    for (std::size_t other = 0; other < places_; ++other) {
      if (other == place || !room_.fits(other, epoch, 1, size)) continue;
      const double way = moves.direct(place, other);
      if (std::isfinite(way) && (to == places_ || way < moves.direct(place, to))) to = other;
    }
    if (to == places_) return false;
    leave(victim, epoch);
    settle(victim, to, epoch);
    victims_[place].erase(last);
    victims_[to].emplace(next, victim);
  }
  return true;
}

}  // namespace vma
