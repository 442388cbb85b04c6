#include "lab/bounds/move_table.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

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

}  // namespace vma
