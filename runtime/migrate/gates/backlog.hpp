#pragma once

#include "base/clock.hpp"

#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

namespace vma {

/// How long work that is enqueued on a stream waits until it runs, as last observed, and how far
/// that was from the observation before.
class Backlog {
 public:
  /// Work ran at `at`, `depth` after it was enqueued.
  void saw(TimePoint at, std::chrono::nanoseconds depth) noexcept;
  /// The known depth must not be used.
  void forget() noexcept { known_ = false; }

  bool known_since(TimePoint earliest) const noexcept { return known_ && seen_at_ >= earliest; }
  /// Zero before the first observation.
  std::chrono::nanoseconds depth() const noexcept { return depth_; }
  /// How much successive observations differ; an average in which each earlier one has half the
  /// weight.
  std::chrono::nanoseconds error() const noexcept { return error_; }

 private:
  std::chrono::nanoseconds depth_{0};
  std::chrono::nanoseconds error_{0};
  TimePoint seen_at_{0};
  bool known_ = false;
  bool ever_seen_ = false;
};

/// When to enqueue on which stream, so that all streams arrive at the same time.
struct StopStart {
  std::size_t index = 0;  ///< Of the stream.
  std::chrono::nanoseconds after{0};
};

/// Deepest first; streams with similar depths start together, and all do if the deepest is shallow.
std::vector<StopStart> schedule_stops(std::span<const Backlog> backlogs);
/// From the first arrival to the last, if backlogs are as wrong as they were lately.
std::chrono::nanoseconds predict_skew(std::span<const Backlog> backlogs);

}  // namespace vma
