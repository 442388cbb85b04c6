#pragma once

#include "lab/bounds/placement_instance.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace vma {

/// Divides time into epochs with equal numbers of blocks; the last may be shorter. Plans move
/// chunks between epochs, and prices apply at their ends.
struct EpochGrid {
  std::uint32_t blocks = 1;  ///< Per epoch.
  std::uint32_t epochs = 0;

  EpochGrid() = default;
  EpochGrid(const PlacementInstance& instance, std::uint32_t epoch_blocks)
      : blocks(epoch_blocks), epochs((instance.blocks - 1) / epoch_blocks + 1) {}

  std::uint32_t of(std::uint32_t block) const { return block / blocks; }
  /// The last block of the epoch; for the last epoch it may be beyond the end of the trace.
  std::uint32_t last_block(std::uint32_t epoch) const { return (epoch + 1) * blocks - 1; }
  /// The chunk exists at the ends of the epochs in [`first_end`, `end`).
  std::uint32_t first_end(const PlacementChunk& chunk) const { return of(chunk.begin); }
  std::uint32_t end(const PlacementChunk& chunk) const { return std::min(of(chunk.end), epochs); }
  /// Number of epochs in the chunk's life, including the one of its last use.
  std::uint32_t life(const PlacementInstance& instance, const PlacementChunk& chunk) const {
    std::uint32_t last = std::min(chunk.end, instance.blocks - 1);
    if (chunk.uses > 0) last = std::max(last, instance.uses_of(chunk).back().block);
    return of(last) - of(chunk.begin) + 1;
  }
};

}  // namespace vma
