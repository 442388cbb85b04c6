#include "lab/bounds/placement_instance.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

namespace vma {

MoveTable::MoveTable(const MachineCosts& costs, std::uint64_t bytes)
    : places_(costs.places()),
      direct_(places_ * places_, impossible),
      into_(places_, impossible),
      round_trip_(places_, impossible),
      cheapest_(impossible) {
  for (std::size_t from = 0; from < places_; ++from) {
    for (std::size_t to = 0; to < places_; ++to) {
      const PlaceId source{static_cast<std::uint8_t>(from)}, target{static_cast<std::uint8_t>(to)};
      double& seconds = direct_[from * places_ + to];
      if (from == to) {
        seconds = 0;
        continue;
      }
      if (costs.copy_rate(source, target) <= 0) continue;
      seconds = std::chrono::duration<double>(costs.move_time(source, target, bytes)).count();
      into_[to] = std::min(into_[to], seconds);
      cheapest_ = std::min(cheapest_, seconds);
    }
  }
  shortest_ = direct_;  // The Floyd-Warshall algorithm.
  for (std::size_t by = 0; by < places_; ++by) {
    for (std::size_t from = 0; from < places_; ++from) {
      for (std::size_t to = 0; to < places_; ++to) {
        double& seconds = shortest_[from * places_ + to];
        seconds = std::min(seconds, shortest(from, by) + shortest(by, to));
      }
    }
  }
  for (std::size_t from = 0; from < places_; ++from) {
    for (std::size_t to = 0; to < places_; ++to) {
      if (from != to)
        round_trip_[from] = std::min(round_trip_[from], shortest(from, to) + shortest(to, from));
    }
  }
}

void PlacementInstance::arrange() {
  std::vector<std::uint32_t> order(uses.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    const PlacementUse &one = uses[a], &other = uses[b];
    return std::tuple(one.chunk, one.block, one.late, one.device) <
           std::tuple(other.chunk, other.block, other.late, other.device);
  });
  std::vector<PlacementUse> sorted;
  std::vector<double> rows;
  sorted.reserve(uses.size());
  rows.reserve(excess.size());
  for (std::size_t n = 0; n < order.size(); ++n) {
    const std::span<const double> from = row(order[n]);
    if (n > 0 && uses[order[n - 1]] == uses[order[n]]) {
      const auto sum = rows.end() - static_cast<std::ptrdiff_t>(places.size());
      std::ranges::transform(from, std::span(sum, places.size()), sum, std::plus<>());
    } else {
      sorted.push_back(uses[order[n]]);
      rows.insert(rows.end(), from.begin(), from.end());
    }
  }
  uses = std::move(sorted);
  excess = std::move(rows);
  for (PlacementChunk& chunk : chunks) {
    chunk.uses = 0;
    chunk.shared = false;
  }
  for (std::size_t use = 0; use < uses.size(); ++use) {
    PlacementChunk& chunk = chunks[uses[use].chunk];
    if (chunk.uses++ == 0) chunk.first_use = use;
    chunk.shared |= uses[use].device != uses[chunk.first_use].device;
  }
}

}  // namespace vma
