#pragma once

#include <vma/snapshot.hpp>

#include <cstddef>
#include <optional>
#include <vector>

namespace vma::inline v1 {

/// Use that has ended: averages fade by their half-life, whatever the pace of a use was, so memory
/// that was read a hundred times a second is worth more for seconds than what is read now. A chunk
/// that would have been used `missed` times since its last use, at the pace that it had, is no
/// longer in use. A pause of less than `least` ends no use.
class UseEndings {
 public:
  static constexpr double missed = 16;

  /// `least` 0: no use ends.
  UseEndings(Time least, double half_life_seconds)
      : least_(least), half_life_seconds_(half_life_seconds) {}

  /// When the use of the chunk has ended, if it is not used before; none if it has no use that
  /// could end. `demand`: bytes per second now, by the short average.
  std::optional<Time> end_of(ChunkId chunk, double demand, const Snapshot& snapshot) const;
  bool ended(ChunkId chunk, double demand, const Snapshot& snapshot) const {
    const std::optional<Time> end = end_of(chunk, demand, snapshot);
    return end && *end <= snapshot.now();
  }

  /// Looks at the chunk again when its use may have ended. An end later than 3.2 s from now is left
  /// to the averages.
  void watch(ChunkId chunk, Time end, Time now);
  /// Chunks whose time has come; they are no longer watched.
  void take_due(Time now, std::vector<ChunkId>& due);
  void forget(ChunkId chunk) noexcept;

 private:
  static constexpr Time slice = std::chrono::milliseconds(50);
  static constexpr std::size_t slices = 64;  // 3.2 s.

  const Time least_;
  const double half_life_seconds_;
  std::vector<std::vector<ChunkId>> due_ = std::vector<std::vector<ChunkId>>(slices);  // A ring.
  std::vector<bool> watched_;                                                          // By chunk.
  std::int64_t taken_ = 0;  // Slices before this one are empty.
};

}  // namespace vma::inline v1
