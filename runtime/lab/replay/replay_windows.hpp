#pragma once

#include "lab/replay/replay_report.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vma {

/// The stretches of a replay, all of one length, up to the one that is under way. Where there would
/// be more than `most`, two each become one of twice the length. Not thread-safe.
class ReplayWindows {
 public:
  /// Requires: both are above zero.
  explicit ReplayWindows(Time length, std::size_t most = 10'000);

  void begin(Time now);
  /// Whether the one under way has ended by `now`: then `pass`, before anything happens at `now`.
  bool over(Time now) const noexcept { return now >= end_; }
  /// Up to `now` the places have held `resident`. Requires: `over`.
  void pass(Time now, const std::vector<std::uint64_t>& resident);
  /// The one under way. Requires: `begin`.
  ReplayWindow& current() { return windows_.back(); }
  Time length() const noexcept { return length_; }

  /// All of them; the last one ends here.
  std::vector<ReplayWindow> take(const std::vector<std::uint64_t>& resident);

 private:
  void halve();

  const std::size_t most_;
  Time length_;
  Time begin_{0}, end_{0};  // Of the first one; of the one under way.
  std::vector<ReplayWindow> windows_;
};

}  // namespace vma
