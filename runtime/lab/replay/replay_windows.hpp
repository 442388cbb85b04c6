#pragma once

#include "lab/replay/replay_report.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vma {

/// The time windows of a replay up to the current one, all of the same length. If there are more
/// than `most`, pairs are merged into windows of twice the length. Not thread-safe.
class ReplayWindows {
 public:
  /// Requires: both are above zero.
  explicit ReplayWindows(Time length, std::size_t most = 10'000);

  void begin(Time now);
  /// Whether the current window has ended by `now`. If so, call `pass` before anything else happens
  /// at `now`.
  bool over(Time now) const noexcept { return now >= end_; }
  /// Ends the windows before `now`, during which the places held `resident`. Requires: `over`.
  void pass(Time now, const std::vector<std::uint64_t>& resident);
  /// The current window. Requires: `begin`.
  ReplayWindow& current() { return windows_.back(); }
  Time length() const noexcept { return length_; }

  /// Returns all windows; the last one ends now.
  std::vector<ReplayWindow> take(const std::vector<std::uint64_t>& resident);

 private:
  void halve();

  const std::size_t most_;
  Time length_;
  Time begin_{0}, end_{0};  // Start of the first window; end of the current one.
  std::vector<ReplayWindow> windows_;
};

}  // namespace vma
