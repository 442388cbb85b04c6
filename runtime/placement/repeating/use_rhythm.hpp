#pragma once

#include "placement/repeating/predictions.hpp"

#include <vma/policy.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace vma::inline v1 {

/// When chunks that stay are used again. The times between the uses of a chunk repeat after one to
/// eight of them; of a chunk that was used once, the next use comes after the time that has just
/// passed between two uses of other chunks of the same GPU, once these agree.
///
/// Times are compared within a quarter of them, and `apart`, so that uses may be late. A use that
/// does not come, or comes in addition, costs its chunk the prediction until its uses repeat again.
/// 216 bytes a chunk, of `chunks_max`; each use costs a bounded time.
class UseRhythm {
 public:
  static constexpr std::size_t chunks_max = std::size_t{1} << 16;

  /// Uses less than `apart` after each other are one.
  explicit UseRhythm(Time apart) : apart_(apart) {}

  /// Returns whether a new use has begun.
  bool used(const UseEvent& use, const Snapshot& snapshot);
  /// None if it is not known.
  std::optional<NextUse> next(ChunkId chunk) const;
  /// Whether what others do may yet tell when it is used.
  bool follows_others(ChunkId chunk) const;
  /// The predicted use has not come.
  void missed(ChunkId chunk);
  void gone(ChunkId chunk);
  /// Whether predictions come true.
  bool trusted() const noexcept { return record_.trusted(); }
  /// How late a use may be that is expected so long after the last one.
  Time patience(Time gap) const { return gap / 4 + apart_; }

 private:
  static constexpr std::size_t uses_kept = 16, period_max = 8;
  struct Use {
    float gap = 0;  // Seconds since the use before.
    float passes = 0;
    PlaceId device{};
  };
  struct Rhythm {
    Time begin{0}, last{0};           // Of the last use.
    std::array<Use, uses_kept> uses;  // A ring.
    std::uint32_t count = 0;          // Of all uses.
    bool lost = false;                // The prediction for the last one failed.
    std::uint8_t period = 0;          // After how many uses the times repeat; 0: they do not.
  };
  /// What the chunks of a GPU that were used once are expected to do.
  struct Beat {
    Time gap{0};
    std::uint32_t agreed = 0;  // How many chunks had this gap, one after the other.
  };

  static const Use& use_at(const Rhythm& rhythm, std::uint32_t number) {
    return rhythm.uses[number % uses_kept];
  }
  bool alike(Time left, Time right) const;
  std::uint8_t find_period(const Rhythm& rhythm) const;
  std::optional<NextUse> next(const Rhythm& rhythm) const;
  void judge(const Rhythm& rhythm, Time now);
  void keep_beat(PlaceId device, Time gap);

  const Time apart_;
  TrackRecord record_;
  std::vector<Rhythm> rhythms_;  // By chunk.
  std::vector<Beat> beats_;      // By GPU.
};

}  // namespace vma::inline v1
