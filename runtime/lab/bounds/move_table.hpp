#pragma once

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace vma {

/// The cost of what cannot be.
inline constexpr double impossible = std::numeric_limits<double>::infinity();

/// What it costs to bring a chunk of one size from place to place, in seconds; infinite where there
/// is no way. Immutable.
class MoveTable {
 public:
  MoveTable(const MachineCosts& costs, std::uint64_t bytes);

  /// One move.
  double direct(std::size_t from, std::size_t to) const { return direct_[from * places_ + to]; }
  /// By as many moves as one likes; 0 to where it lies.
  double shortest(std::size_t from, std::size_t to) const { return shortest_[from * places_ + to]; }
  /// The cheapest move that ends there.
  double into(std::size_t place) const { return into_[place]; }
  /// To the cheapest other place and back.
  double round_trip(std::size_t place) const { return round_trip_[place]; }
  /// No move is cheaper.
  double cheapest() const noexcept { return cheapest_; }

 private:
  std::size_t places_;
  std::vector<double> direct_, shortest_, into_, round_trip_;
  double cheapest_;
};

}  // namespace vma
