#pragma once

#include "lab/bounds/chunk_walk.hpp"
#include "lab/bounds/move_table.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vma {

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
