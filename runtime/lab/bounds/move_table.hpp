#pragma once

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace vma {

/// The cost of an impossible choice.
inline constexpr double impossible = std::numeric_limits<double>::infinity();

/// The cost in seconds of moving a chunk of one size between places; infinite if there is no path.
/// Immutable.
class MoveTable {
 public:
  MoveTable(const MachineCosts& costs, std::uint64_t bytes);

  /// By a single move.
  double direct(std::size_t from, std::size_t to) const { return direct_[from * places_ + to]; }
  /// By any number of moves; 0 from a place to itself.
  double shortest(std::size_t from, std::size_t to) const { return shortest_[from * places_ + to]; }
  /// The cheapest single move that ends there.
  double into(std::size_t place) const { return into_[place]; }
  /// To the cheapest other place and back.
  double round_trip(std::size_t place) const { return round_trip_[place]; }
  /// The cheapest single move of all.
  double cheapest() const noexcept { return cheapest_; }

 private:
  std::size_t places_;
  std::vector<double> direct_, shortest_, into_, round_trip_;
  double cheapest_;
};

}  // namespace vma
