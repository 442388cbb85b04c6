#pragma once

#include <vma/snapshot.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace vma::inline v1 {

/// Chunks of several places, each place's coldest first, kept in order while they are added,
/// removed and used: a change costs the same however many there are. The order is that of integers,
/// which represent warmth; of equals, the one that got its value first comes first.
class ColdOrder {
 public:
  /// Adds the chunk there, or moves it from another place or warmth.
  void put(ChunkId chunk, PlaceId at, std::int64_t warmth);
  void remove(ChunkId chunk);

  /// Prefetches what `put` of this chunk will read.
  void prefetch(ChunkId chunk) const {
    if (index(chunk) < links_.size()) __builtin_prefetch(&links_[index(chunk)]);
  }
  bool holds(ChunkId chunk) const {
    return index(chunk) < links_.size() && links_[index(chunk)].listed;
  }
  /// Requires: the chunk is in the order.
  PlaceId place_of(ChunkId chunk) const { return links_[index(chunk)].at; }
  /// Requires: the chunk is in the order.
  std::int64_t warmth_of(ChunkId chunk) const { return links_[index(chunk)].warmth; }
  std::optional<ChunkId> coldest(PlaceId at) const;
  /// The next warmer chunk of the same place. Requires: the chunk is in the order.
  std::optional<ChunkId> after(ChunkId chunk) const;

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  struct Link {
    std::int64_t warmth = 0;
    std::uint32_t before = none, after = none;
    PlaceId at{};
    bool listed = false;
  };
  struct Ends {
    std::uint32_t first = none, last = none;
  };
  using Lists = std::map<std::int64_t, Ends>;  // By warmth.

  std::vector<Link> links_;   // By chunk.
  std::vector<Lists> lists_;  // By place.
};

}  // namespace vma::inline v1
