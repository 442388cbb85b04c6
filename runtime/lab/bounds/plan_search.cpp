#include "lab/bounds/plan_search.hpp"

#include "lab/bounds/room_by_epoch.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace vma {

PlanSearch::PlanSearch(const PlacementInstance& instance, const EpochGrid& grid,
                       std::span<const double> prices)
    : instance_(instance),
      grid_(grid),
      places_(instance.place_count()),
      plan_(instance, grid),
      ahead_(plan_.size() * places_),
      costs_(places_) {
  for (std::size_t chunk = 0; chunk < instance.chunks.size(); ++chunk) look_ahead(chunk, prices);
}

/// Works backwards from the last epoch of the chunk's life.
void PlanSearch::look_ahead(std::size_t number, std::span<const double> prices) {
  const PlacementChunk& chunk = instance_.chunks[number];
  const MoveTable& moves = instance_.moves_of(chunk);
  std::vector<double> uses, after(places_, 0), now(places_);
  plan_.costs(number, uses);
  for (std::size_t epoch = plan_.epochs(number); epoch-- > 0;) {
    const std::size_t absolute = plan_.first(number) + epoch;
    for (std::size_t place = 0; place < places_; ++place) {
      double best = std::numeric_limits<double>::infinity();
      for (std::size_t to = 0; to < places_; ++to)
        best = std::min(best, moves.direct(place, to) + after[to]);
      now[place] = best + uses[epoch * places_ + place] +
                   prices[absolute * places_ + place] * static_cast<double>(chunk.bytes);
      ahead_[(plan_.begin(number) + epoch) * places_ + place] = static_cast<float>(now[place]);
    }
    now.swap(after);
  }
}

PlacementPlan PlanSearch::run() {
  std::vector<std::vector<std::size_t>> born(grid_.epochs);
  for (std::size_t chunk = 0; chunk < instance_.chunks.size(); ++chunk)
    born[plan_.first(chunk)].push_back(chunk);
  RoomByEpoch room(instance_, grid_);
  std::vector<std::size_t> live;
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t epoch = 0; epoch < grid_.epochs; ++epoch) {
    live.insert(live.end(), born[epoch].begin(), born[epoch].end());
    std::erase_if(
        live, [&](std::size_t chunk) { return plan_.first(chunk) + plan_.epochs(chunk) <= epoch; });
    order.clear();
    for (const std::size_t chunk : live) {
      choose(epoch, chunk);
      order.emplace_back(-regret(costs_) / static_cast<double>(instance_.chunks[chunk].bytes),
                         chunk);
    }
    std::ranges::sort(order);
    for (const auto& [loss, chunk] : order) {
      choose(epoch, chunk);
      plan_.places(chunk)[epoch - plan_.first(chunk)] = static_cast<std::uint8_t>(
          room.take_best(epoch, 1, instance_.chunks[chunk].bytes, costs_));
    }
  }
  return std::move(plan_);
}

/// Writes the cost of each place for the chunk, from this epoch on, to `costs_`.
void PlanSearch::choose(std::size_t epoch, std::size_t chunk) {
  const MoveTable& moves = instance_.moves_of(instance_.chunks[chunk]);
  const std::size_t own = epoch - plan_.first(chunk);
  for (std::size_t place = 0; place < places_; ++place) {
    const double way = own == 0 ? plan_.cost_to_begin(chunk, place)
                                : moves.direct(plan_.places(chunk)[own - 1], place);
    costs_[place] = way + ahead_[(plan_.begin(chunk) + own) * places_ + place];
  }
}

}  // namespace vma
