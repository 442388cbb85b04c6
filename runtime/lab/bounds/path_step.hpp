#pragma once

#include "lab/bounds/chunk_walk.hpp"
#include "lab/bounds/move_table.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vma {

/// What it has cost to come into a state, and from which state the last block began.
struct PathCell {
  double cost = 0;
  std::uint8_t origin = 0;
};

/// Carries the cheapest ways of one chunk through one block. Of its states, two a place, the first
/// half are those in which nothing is open. In the others it has moved in this block (a shared
/// chunk), or uses that came in this block have still to begin (any other).
///
/// A chunk of one device is used in the order of the trace, so the way is exact. A shared chunk
/// that moves within a block is charged as if each device had used it when it suited best.
class PathStep {
 public:
  explicit PathStep(std::size_t places) : places_(places), base_(places), reached_(places) {}

  static std::size_t states(std::size_t places) { return 2 * places; }
  /// The beginning: nothing is open.
  void begin(const PlacementChunk& chunk, std::span<PathCell> cells) const;
  /// From the end of the block before to the end of this one.
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
