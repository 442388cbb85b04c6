#pragma once

#include "lab/bounds/epoch_grid.hpp"
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

}  // namespace vma
