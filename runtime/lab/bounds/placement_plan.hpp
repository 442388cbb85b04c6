#pragma once

#include "lab/bounds/epoch_grid.hpp"
#include "lab/bounds/placement_instance.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vma {

/// A place for each chunk in each epoch of its life. It keeps a chunk's room from the epoch in
/// which it begins to that in which it ends, both whole. Borrows the instance.
class PlacementPlan {
 public:
  PlacementPlan(const PlacementInstance& instance, const EpochGrid& grid);

  std::uint32_t first(std::size_t chunk) const { return firsts_[chunk]; }
  /// Epochs of its life.
  std::size_t epochs(std::size_t chunk) const { return begins_[chunk + 1] - begins_[chunk]; }
  /// Of all chunks.
  std::size_t size() const { return places_.size(); }
  /// Where a chunk's epochs begin among those of all.
  std::size_t begin(std::size_t chunk) const { return begins_[chunk]; }
  std::span<std::uint8_t> places(std::size_t chunk) {
    return std::span(places_).subspan(begin(chunk), epochs(chunk));
  }

  /// What the chunk's uses cost above the floor: [epoch of its life][place].
  void costs(std::size_t chunk, std::vector<double>& costs) const;
  /// To lay a new chunk there, in seconds.
  double cost_to_begin(std::size_t chunk, std::size_t place) const;
  /// What the whole plan costs, in seconds, the floor included; infinite if a place overflows.
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
