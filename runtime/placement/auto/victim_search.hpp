#pragma once

#include "placement/weighing/chunk_worth.hpp"
#include "placement/auto/outlook.hpp"
#include "placement/auto/shift_watch.hpp"
#include "placement/auto/use_endings.hpp"

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <type_traits>
#include <vector>

namespace vma::inline v1 {

/// The chunks of each place, in order of their value there, for searches for victims. Updated chunk
/// by chunk: a change costs a few memory accesses, whatever the number of chunks, because the order
/// consists of buckets, two for each doubling of the key. Within a bucket, earlier entries come
/// first. 24 bytes a chunk.
///
/// Values fade over time. All fade alike, so the order stays right if keys are logarithms of the
/// value to base 2 plus the number of half-lives that have passed.
class ValueOrder {
 public:
  ValueOrder() = default;
  ValueOrder(const ValueOrder&) = delete;  // Chunks point to their buckets.
  ValueOrder& operator=(const ValueOrder&) = delete;

  /// The key of a chunk without value.
  static constexpr double worthless = -1e9;

  /// Adds the chunk, or moves it to its new position. Requires: its size stays the same until it
  /// is dropped.
  void put(ChunkId chunk, PlaceId at, double key, std::uint64_t bytes);
  void drop(ChunkId chunk);
  /// Prefetch: `prepare_put` is about to be called.
  void prepare(ChunkId chunk) const { prepare_cell(nodes_, chunk); }
  /// Prefetch: `put` is about to be called.
  void prepare_put(ChunkId chunk) const;

  /// The chunk with the least value; `next` after it. `ChunkRow::none` at the end.
  std::uint32_t first(PlaceId at) const;
  std::uint32_t next(std::uint32_t chunk) const;
  /// The mean value of the bytes there, of which 2 to the power of `fading` is 1; within a fifth,
  /// since all chunks of a bucket count alike. 0 if nothing is there. Costs as much as there are
  /// buckets.
  double mean_value(PlaceId at, double fading) const;
  std::size_t state_bytes() const;

 private:
  struct Bucket {
    std::int32_t number = 0;
    std::uint32_t first = ChunkRow::none, last = ChunkRow::none;
    double bytes = 0;
  };
  struct Node {
    Bucket* bucket = nullptr;  // Null if it is not listed.
    std::uint32_t previous = ChunkRow::none, next = ChunkRow::none;
    float bytes = 0;
    PlaceId at{};
  };
  static_assert(sizeof(Node) == 24);
  using Buckets = std::map<std::int32_t, Bucket>;
  static_assert(std::is_nothrow_move_constructible_v<Buckets>, "buckets stay where they are");

  void unlink(Node& node);

  std::vector<Node> nodes_;       // By chunk.
  std::vector<Buckets> buckets_;  // By place; none is empty.
};

/// Where chunks would go if they made way, and what their users would lose by that. Searches for
/// victims come to the same chunks for one proposal after another, and neither the books nor what
/// is expected changes during a call of the policy: so each chunk is weighed once a call.
class VictimLosses {
 public:
  /// Requires: `shifts` and `endings` outlive it.
  VictimLosses(const ShiftWatch& shifts, const UseEndings& endings, double horizon_seconds)
      : shifts_(shifts), horizon_seconds_(horizon_seconds) {
    outlook_.end_by(endings);
  }

  /// A call of the policy begins: forgets what the last one found.
  void begin();

  struct Way {
    PlaceId to{};
    double lost = 0;  ///< Seconds of access within the horizon, of all users.
  };
  /// The way to the next place with room, as `next_place`; null if there is none. Use from before a
  /// shift does not count. Valid until the next call.
  const Way* next(const Snapshot& snapshot, ChunkId chunk, const Room& room);

 private:
  /// The chunk's part of `ways_`, if it was weighed in this call.
  struct Weighed {
    std::uint64_t call = 0;
    std::uint32_t first = 0, count = 0;
  };
  void weigh(const Snapshot& snapshot, ChunkId chunk, Weighed& weighed);

  const ShiftWatch& shifts_;
  const double horizon_seconds_;
  Outlook outlook_;
  std::vector<Weighed> chunks_;
  std::vector<Way> ways_;  // Of each chunk, the fastest place first.
  std::uint64_t call_ = 1;
};

}  // namespace vma::inline v1
