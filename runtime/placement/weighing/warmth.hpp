#pragma once

#include "placement/weighing/cold_order.hpp"

#include <vma/snapshot.hpp>

#include <optional>
#include <string>
#include <vector>

namespace vma::inline v1 {

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
