#pragma once

#include <vma/snapshot.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
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

/// How warm each chunk in a GPU's HBM is, by how often it was used at its last use and how long ago
/// that is, and the order by that. It follows a snapshot's changed chunks, so that unused chunks
/// cost nothing.
class Warmth {
 public:
  explicit Warmth(Time half_life) : half_life_(half_life) {}

  /// Takes in all changes. May be called any number of times.
  void follow(const Snapshot& snapshot);
  void forget(ChunkId chunk);

  /// In powers of two; comparable between chunks at any time. For a chunk that `walk` shows.
  double of(ChunkId chunk) const { return filed_[index(chunk)].warmth; }
  /// For a chunk that has just been used.
  double of_used_now(const Snapshot& snapshot, ChunkId chunk) const;
  /// "idle 12.0 s, 0.25 passes/s".
  static std::string text(const Snapshot& snapshot, ChunkId chunk);

  /// Walks the chunks of one place from the coldest on, at most `looks_max` of them. Chunks used
  /// since they were last filed are refiled on the way, and not shown.
  template <typename Body>  // bool body(ChunkId): whether to go on.
  void walk(const Snapshot& snapshot, PlaceId at, Body&& body) {
    std::optional<ChunkId> chunk = start(at);
    for (std::size_t looks = 0; chunk; ++looks) {
      if (looks == looks_max) {
        resume(at, *chunk);
        return;
      }
      const ChunkId looked_at = *chunk;
      chunk = order_.after(looked_at);
      if (refile(snapshot, looked_at)) continue;
      if (!body(looked_at)) break;
    }
    resume(at, std::nullopt);
  }
  static constexpr std::size_t looks_max = 4096;

 private:
  void file(const Snapshot& snapshot, ChunkId chunk);
  bool refile(const Snapshot& snapshot, ChunkId chunk);
  std::optional<ChunkId> start(PlaceId at) const;
  void resume(PlaceId at, std::optional<ChunkId> chunk);

  const Time half_life_;
  ColdOrder order_;
  struct Filed {
    Time use = Time::min();  // The last one at that time.
    double warmth = 0;
  };
  std::vector<Filed> filed_;                       // By chunk.
  std::vector<std::optional<ChunkId>> resume_at_;  // By place: where the last walk was cut short.
};

}  // namespace vma::inline v1
