#pragma once

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace vma::inline v1 {

/// The chunks of each place, in order of their value there, for searches for victims. Updated chunk
/// by chunk: a change costs a few memory accesses, whatever the number of chunks, because the order
/// consists of buckets, two for each doubling of the key. Within a bucket, earlier entries come
/// first. 16 bytes a chunk.
///
/// Values fade over time. All fade alike, so the order stays right if keys are logarithms of the
/// value to base 2 plus the number of half-lives that have passed.
class ValueOrder {
 public:
  /// The key of a chunk without value.
  static constexpr double worthless = -1e9;

  /// Adds the chunk, or moves it to its new position.
  void put(ChunkId chunk, PlaceId at, double key);
  void drop(ChunkId chunk);
  /// Prefetch: `put` is about to be called.
  void prepare(ChunkId chunk) const;

  /// The chunk with the least value; `next` after it. `ChunkRow::none` at the end.
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
