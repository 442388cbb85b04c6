#pragma once

#include "lab/bounds/placement_instance.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace vma {

/// Epochs consist of equal numbers of blocks. Plans move chunks between them, and prices apply at
/// their ends. The last may be shorter.
struct EpochGrid {
  std::uint32_t blocks = 1;  ///< In an epoch.
  std::uint32_t epochs = 0;

  EpochGrid() = default;
  EpochGrid(const PlacementInstance& instance, std::uint32_t epoch_blocks)
      : blocks(epoch_blocks), epochs((instance.blocks - 1) / epoch_blocks + 1) {}

  std::uint32_t of(std::uint32_t block) const { return block / blocks; }
  /// The block at whose end the epoch ends; for the last epoch it may be one after the trace.
  std::uint32_t last_block(std::uint32_t epoch) const { return (epoch + 1) * blocks - 1; }
  /// Epochs at whose ends the chunk exists: from `first_end` to before `end`.
  std::uint32_t first_end(const PlacementChunk& chunk) const { return of(chunk.begin); }
  std::uint32_t end(const PlacementChunk& chunk) const { return std::min(of(chunk.end), epochs); }
  /// Number of epochs in the chunk's life, including that of its last use.
  std::uint32_t life(const PlacementInstance& instance, const PlacementChunk& chunk) const {
    std::uint32_t last = std::min(chunk.end, instance.blocks - 1);
    if (chunk.uses > 0) last = std::max(last, instance.uses_of(chunk).back().block);
    return of(last) - of(chunk.begin) + 1;
  }
};

}  // namespace vma
