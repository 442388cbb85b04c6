#include "lab/bounds/plan_search.hpp"

#include "lab/bounds/placement_instance.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace vma {
namespace {

class FurthestNextUse {
 public:
  FurthestNextUse(const PlacementInstance& instance, const EpochGrid& grid);

  PlacementPlan run();

 private:
  static constexpr std::uint32_t never_used = UINT32_MAX;

  void begin_epoch(std::size_t epoch);
  /// Consumes the chunk's uses in the epoch, and writes their costs at each place to `costs_`.
  void take_uses(std::size_t chunk, std::size_t epoch);
  std::uint32_t next_use(std::size_t chunk) const;
  void bring(std::size_t chunk, std::size_t epoch);
  bool make_room(std::size_t place, std::size_t epoch, std::uint64_t bytes);
  void put(std::size_t chunk, std::size_t place, std::size_t epoch);
  void leave(std::size_t chunk, std::size_t epoch);
  std::uint8_t& place_of(std::size_t chunk, std::size_t epoch) {
    return plan_.places(chunk)[epoch - plan_.first(chunk)];
  }

  const PlacementInstance& instance_;
  const EpochGrid grid_;
  const std::size_t places_;
  PlacementPlan plan_;
  RoomByEpoch room_;
  std::vector<std::size_t> next_;  // Per chunk: its first use that is not consumed.
  std::vector<std::size_t> live_;
  std::vector<std::vector<std::size_t>> born_, used_;  // Per epoch.
  /// Per place: the chunks that may leave, ordered by next use.
  std::vector<std::set<std::pair<std::uint32_t, std::size_t>>> victims_;
  std::vector<bool> placed_;  // Per chunk: it has a place in this epoch or had one in the last.
  std::vector<double> costs_;
};

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
    put(chunk, place, epoch);
    victims_[place].emplace(next_use(chunk), chunk);
  }
}

void FurthestNextUse::put(std::size_t chunk, std::size_t place, std::size_t epoch) {
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
    put(chunk, best, epoch);
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
    put(victim, to, epoch);
    victims_[place].erase(last);
    victims_[to].emplace(next, victim);
  }
  return true;
}

class PlanSearch {
 public:
  PlanSearch(const PlacementInstance& instance, const EpochGrid& grid,
             std::span<const double> prices);

  PlacementPlan run();

 private:
  void look_ahead(std::size_t chunk, std::span<const double> prices);
  void choose(std::size_t epoch, std::size_t chunk);

  const PlacementInstance& instance_;
  const EpochGrid grid_;
  const std::size_t places_;
  PlacementPlan plan_;
  std::vector<float> ahead_;  // [chunk's epoch][place]: the cost from this epoch on.
  std::vector<double> costs_;
};

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

}  // namespace

PlacementPlan plan_by_next_use(const PlacementInstance& instance, const EpochGrid& grid) {
  return FurthestNextUse(instance, grid).run();
}

PlacementPlan plan_at_prices(const PlacementInstance& instance, const EpochGrid& grid,
                             std::span<const double> prices) {
  return PlanSearch(instance, grid, prices).run();
}

}  // namespace vma
