#pragma once

#include <vma/snapshot.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace vma::inline v1 {

/// Chunks of several places, each place's coldest first, kept while they come, go and warm up: a
/// change costs the same however many there are. Order is that of numbers, which stand for
/// warmth; of equals, who has had the number for longest leads.
class ColdOrder {
 public:
  /// Puts the chunk there, or moves it if it was elsewhere.
  void put(ChunkId chunk, PlaceId at, std::int64_t warmth);
  void remove(ChunkId chunk);

  /// Brings in what `put` of this chunk will read.
  void prefetch(ChunkId chunk) const {
    if (index(chunk) < links_.size()) __builtin_prefetch(&links_[index(chunk)]);
  }
  bool holds(ChunkId chunk) const {
    return index(chunk) < links_.size() && links_[index(chunk)].listed;
  }
  /// Requires: it is held.
  PlaceId place_of(ChunkId chunk) const { return links_[index(chunk)].at; }
  /// Requires: it is held.
  std::int64_t warmth_of(ChunkId chunk) const { return links_[index(chunk)].warmth; }
  std::optional<ChunkId> coldest(PlaceId at) const;
  /// The next warmer one of the same place. Requires: it is held.
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
