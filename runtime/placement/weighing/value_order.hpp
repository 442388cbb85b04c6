#pragma once

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace vma::inline v1 {

/// The chunks of each place, in order of what they are worth there: what a search for victims walks
/// through. Kept up chunk by chunk: a change costs a handful of memory accesses, whatever the
/// number of chunks, for the order is one of buckets, two for each doubling of the key. Within a
/// bucket those lead that came first. 16 bytes a chunk.
///
/// Values fade while nobody looks. All fade alike, so that the order stays right if keys are
/// logarithms of the value to base 2 with the half-lives that have passed added.
class ValueOrder {
 public:
  /// Of what has no value at all.
  static constexpr double worthless = -1e9;

  /// Enters the chunk, or moves it to where it belongs now.
  void put(ChunkId chunk, PlaceId at, double key);
  void drop(ChunkId chunk);
  /// For the processor: `put` is about to be called.
  void prepare(ChunkId chunk) const;

  /// The one with the least value; `next` after it. `ChunkRow::none` at the end.
  std::uint32_t first(PlaceId at) const;
  std::uint32_t next(std::uint32_t chunk) const;
  std::size_t state_bytes() const;

 private:
  struct Node {
    std::uint32_t previous = ChunkRow::none, next = ChunkRow::none;
    std::int32_t bucket = 0;
    PlaceId at{};
    bool listed = false;
  };
  static_assert(sizeof(Node) == 16);
  struct Bucket {
    std::uint32_t first = ChunkRow::none, last = ChunkRow::none;
  };
  using Buckets = std::map<std::int32_t, Bucket>;

  void unlink(Node& node);

  std::vector<Node> nodes_;       // By chunk.
  std::vector<Buckets> buckets_;  // By place; none is empty.
};

}  // namespace vma::inline v1
