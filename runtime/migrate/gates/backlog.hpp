#pragma once

#include "base/clock.hpp"

#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

namespace vma {

/// How long work that is enqueued on a stream takes to get its turn, as it was last seen, and how
/// far that was from the look before.
class Backlog {
 public:
  /// Something had its turn at `at`, so long after it was enqueued.
  void saw(TimePoint at, std::chrono::nanoseconds depth) noexcept;
  /// What is known is not to be acted on.
  void forget() noexcept { known_ = false; }

  bool known_since(TimePoint earliest) const noexcept { return known_ && seen_at_ >= earliest; }
  /// Zero before the first look.
  std::chrono::nanoseconds depth() const noexcept { return depth_; }
  /// By how much one look differs from the next; half of it is of the last two, and so on.
  std::chrono::nanoseconds error() const noexcept { return error_; }

 private:
  std::chrono::nanoseconds depth_{0};
  std::chrono::nanoseconds error_{0};
  TimePoint seen_at_{0};
  bool known_ = false;
  bool ever_seen_ = false;
};

/// When to enqueue on which stream, so that all have their turn at the same time.
struct StopStart {
  std::size_t index = 0;  ///< Of the stream.
  std::chrono::nanoseconds after{0};
};

/// Deepest first; those that differ little start together, and all do where the deepest is shallow.
std::vector<StopStart> schedule_stops(std::span<const Backlog> backlogs);
/// From the first turn to the last, if backlogs are as wrong as they were lately.
std::chrono::nanoseconds predict_skew(std::span<const Backlog> backlogs);

}  // namespace vma
