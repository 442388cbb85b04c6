#pragma once

#include "lab/bounds/placement_instance.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vma {

/// The events of one chunk in one block: seconds per place in excess of its best place.
struct ChunkBlock {
  bool shared = false;   ///< Several devices use the chunk, in this block or another.
  bool skipped = false;  ///< Nothing happened in the previous block.
  /// Uses that arrived in the previous block and may begin in either; uses that arrive and begin
  /// here; uses that arrive here and may begin in the next block.
  bool any_before = false, any_within = false, any_after = false;
  bool mixed = false;  ///< Uses by several devices arrive and begin here.
  std::vector<double> before, within, after;
  /// For `mixed`: a lower bound for the cost of these uses while the chunk moves from one place to
  /// another through any others, excluding the moves into its final place.
  double apart = 0;
};

/// Iterates over the blocks in which something happens to a chunk. Borrows the instance.
class ChunkWalk {
 public:
  ChunkWalk(const PlacementInstance& instance, std::size_t chunk);

  /// Returns the next such block; nothing after the last.
  std::optional<std::uint32_t> next() const;
  /// Requires: the block is after the last entered one, and not after `next()`.
  const ChunkBlock& enter(std::uint32_t block);

 private:
  void add(std::size_t use, std::vector<double>& sum, bool& any);
  double cost_apart(std::size_t first, std::size_t last);

  const PlacementInstance& instance_;
  const PlacementChunk& chunk_;
  std::size_t next_use_, end_use_;
  std::int64_t last_block_;
  ChunkBlock now_;
  std::vector<double> savings_;
};

}  // namespace vma
