#pragma once

#include "placement/repeating/predictions.hpp"

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

/// The predicted next uses of chunks, by time; and by the place where the chunks lie.
class UseCalendar {
 public:
  struct Entry {
    NextUse use;
    Time asked{0};  ///< When it was predicted.
    PlaceId at{};   ///< Where the chunk lies.
    bool known = false;
    std::uint16_t pays_below = 0;  ///< How many working GPUs are too many for a prefetch to pay.
  };

  void put(ChunkId chunk, const NextUse& use, Time now, PlaceId at, std::uint16_t pays_below);
  void drop(ChunkId chunk);
  const Entry& operator[](ChunkId chunk) const;
  bool has(ChunkId chunk) const { return (*this)[chunk].known; }

  /// Calls `body`, the nearest first, until it returns false. It must not change the calendar.
  template <typename Body>  // bool body(ChunkId, const NextUse&)
  void nearest(Body&& body) const {
    order_.nearest(
        [&](const UseOrder::Use& use) { return body(use.chunk, entries_[index(use.chunk)].use); });
  }
  /// The same for those of the nearest `most` whose chunks do not lie at the GPU that will use
  /// them, and whose prefetch pays while so many GPUs work.
  template <typename Body>  // bool body(ChunkId, const NextUse&)
  void nearest_paying(std::size_t most, std::size_t working, Body&& body) const {
    order_.nearest([&](const UseOrder::Use& use) {
      if (most-- == 0) return false;
      return use.device == use.lies_at || working >= use.pays_below ||
             body(use.chunk, entries_[index(use.chunk)].use);
    });
  }
  /// The same for those at one place, the furthest first.
  template <typename Body>  // bool body(ChunkId, const NextUse&)
  void furthest(PlaceId at, Body&& body) const {
    if (index(at) >= at_.size()) return;
    at_[index(at)].furthest(
        [&](const UseOrder::Use& use) { return body(use.chunk, entries_[index(use.chunk)].use); });
  }

 private:
  std::vector<Entry> entries_;  // By chunk.
  UseOrder order_;
  std::vector<UseOrder> at_;  // By place.
};

}  // namespace vma::inline v1
