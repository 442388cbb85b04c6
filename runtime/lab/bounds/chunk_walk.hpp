#pragma once

#include "lab/bounds/placement_instance.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vma {

/// All that happens to one chunk in one block: seconds by place, above what it takes at best.
struct ChunkBlock {
  bool shared = false;   ///< Several devices use the chunk, in this block or another.
  bool skipped = false;  ///< Nothing happened in the block before.
  /// Uses that came in the block before and may begin in either; those that come and begin here;
  /// those that come here and may begin in the next.
  bool any_before = false, any_within = false, any_after = false;
  bool mixed = false;  ///< Several devices' uses come and begin here.
  std::vector<double> before, within, after;
  /// Of `mixed`: what its uses cost at least while the chunk moves from one place to another by
  /// way of any others, above the moves into the place where it ends.
  double apart = 0;
};

/// Goes over the blocks in which something happens to a chunk. Borrows the instance.
class ChunkWalk {
 public:
  ChunkWalk(const PlacementInstance& instance, std::size_t chunk);

  /// The next such block; none: there is no more.
  std::optional<std::uint32_t> next() const;
  /// Requires: `next()` is not before it, and it is after the last one.
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
