#pragma once

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <ranges>
#include <vector>

namespace vma::inline v1 {

/// Predicted uses in the order of their times, and then of their chunks, in sorted blocks (a B+
/// tree of two levels, after Bayer and McCreight, 1972). Each tick walks through the first
/// thousand: in a block these are adjacent, in a tree of nodes each waits for memory.
class UseOrder {
 public:
  struct Use {
    Time at{0};
    ChunkId chunk{};
    PlaceId device{}, lies_at{};   ///< No part of the order.
    std::uint16_t pays_below = 0;  ///< Likewise.
  };

  /// Requires: no use of the chunk at that time is there; for `erase`: one is.
  void insert(const Use& use);
  void erase(Time at, ChunkId chunk);

  /// Calls `body`, the nearest first, until it returns false. It must not change the order.
  template <typename Body>  // bool body(const Use&)
  void nearest(Body&& body) const {
    for (const Block& block : blocks_)
      for (const Use& use : block)
        if (!body(use)) return;
  }
  /// The same, the furthest first.
  template <typename Body>  // bool body(const Use&)
  void furthest(Body&& body) const {
    for (const Block& block : blocks_ | std::views::reverse)
      for (const Use& use : block | std::views::reverse)
        if (!body(use)) return;
  }

 private:
  static constexpr std::size_t block_max = 128;
  using Block = std::vector<Use>;

  std::vector<Block>::iterator block_of(Time at, ChunkId chunk);

  std::vector<Block> blocks_;  // None is empty.
};

}  // namespace vma::inline v1
