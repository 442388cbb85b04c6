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

/// The cost of reaching a state, and the state at the end of the previous block.
struct PathCell {
  double cost = 0;
  std::uint8_t origin = 0;
};

/// Advances the cheapest paths of one chunk by one block. Each place has two states. In the first
/// half of the states nothing is open. In the second half, a shared chunk has moved in this block;
/// for a chunk of one device, uses that arrived in this block have not begun.
///
/// A chunk of one device is used in the order of the trace, so its path is exact. A shared chunk
/// that moves within a block is charged as if each device had used it at the best time.
class PathStep {
 public:
  explicit PathStep(std::size_t places) : places_(places), base_(places), reached_(places) {}

  static std::size_t states(std::size_t places) { return 2 * places; }
  /// The initial states: nothing is open.
  void begin(const PlacementChunk& chunk, std::span<PathCell> cells) const;
  /// Advances from the end of the previous block to the end of this one.
  void advance(const MoveTable& moves, const ChunkBlock& block, std::span<PathCell> cells);

 private:
  using Cells = std::span<PathCell>;
  void advance_alone(const MoveTable& moves, const ChunkBlock& block, Cells settled, Cells open);
  void advance_shared(const MoveTable& moves, const ChunkBlock& block, Cells settled, Cells open);
  void move_once(const MoveTable& moves, const ChunkBlock& block, Cells moved);
  void move_by_one(const MoveTable& moves, const ChunkBlock& block, Cells moved);
  void move_freely(const MoveTable& moves, Cells cells);

  std::size_t places_;
  std::vector<PathCell> base_, reached_;
};

}  // namespace vma
