#pragma once

#include "lab/bounds/placement_instance.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vma {

/// The second lowest cost minus the lowest; 0 for a single place, or if no place is possible.
/// Requires: no cost is negative.
double regret(std::span<const double> costs);

/// The free bytes of each place in each epoch while a plan is made.
class RoomByEpoch {
 public:
  RoomByEpoch(const PlacementInstance& instance, const EpochGrid& grid);

  bool fits(std::size_t place, std::size_t first, std::size_t epochs, std::uint64_t bytes) const;
  /// Requires: the bytes fit.
  void take(std::size_t place, std::size_t first, std::size_t epochs, std::uint64_t bytes);
  void give(std::size_t place, std::size_t epoch, std::uint64_t bytes) {
    free_[epoch * places_ + place] += bytes;
  }
  /// Takes room at the cheapest place that has it in all these epochs. If there is none, returns
  /// the last place and takes nothing.
  std::size_t take_best(std::size_t first, std::size_t epochs, std::uint64_t bytes,
                        std::span<const double> costs);

 private:
  std::size_t places_;
  std::vector<std::uint64_t> free_;  // [epoch][place]
};

/// A place for each chunk in each epoch of its life. Reserves room for a chunk in all epochs from
/// its first to its last, inclusive. Borrows the instance.
class PlacementPlan {
 public:
  PlacementPlan(const PlacementInstance& instance, const EpochGrid& grid);

  std::uint32_t first(std::size_t chunk) const { return firsts_[chunk]; }
  /// Number of epochs in the chunk's life.
  std::size_t epochs(std::size_t chunk) const { return begins_[chunk + 1] - begins_[chunk]; }
  /// Number of epochs of all chunks together.
  std::size_t size() const { return places_.size(); }
  /// Index of a chunk's first epoch among those of all chunks.
  std::size_t begin(std::size_t chunk) const { return begins_[chunk]; }
  std::span<std::uint8_t> places(std::size_t chunk) {
    return std::span(places_).subspan(begin(chunk), epochs(chunk));
  }

  /// Writes the chunk's costs above the floor to `costs`, as [epoch of its life][place].
  void costs(std::size_t chunk, std::vector<double>& costs) const;
  /// The cost in seconds of placing a new chunk there.
  double cost_to_begin(std::size_t chunk, std::size_t place) const;
  /// The cost of the whole plan in seconds, including the floor; infinite if a place overflows.
  double seconds();

 private:
  bool fits();

  const PlacementInstance& instance_;
  const EpochGrid grid_;
  std::vector<std::uint32_t> firsts_;
  std::vector<std::size_t> begins_;
  std::vector<std::uint8_t> places_;
};

}  // namespace vma
