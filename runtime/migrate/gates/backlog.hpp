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
  /// At a gate the stream had not arrived in time when others stopped: it was deeper than it
  /// seemed.
  void was_late() noexcept { missed_for_ = gates_remembered; }
  /// It arrived at a gate.
  void was_in_time() noexcept { missed_for_ -= missed_for_ > 0 ? 1 : 0; }

  bool known_since(TimePoint earliest) const noexcept { return known_ && seen_at_ >= earliest; }
  /// Zero before the first observation.
  std::chrono::nanoseconds depth() const noexcept { return depth_; }
  /// How much successive observations differ; an average in which each earlier one has half the
  /// weight.
  std::chrono::nanoseconds error() const noexcept { return error_; }
  /// How deep it may well be next time.
  std::chrono::nanoseconds reach() const noexcept { return depth_ + error_; }
  /// Whether it missed one of the last gates: it may do so again, whatever its reach.
  bool missed() const noexcept { return missed_for_ > 0; }

 private:
  static constexpr int gates_remembered = 16;

  std::chrono::nanoseconds depth_{0};
  std::chrono::nanoseconds error_{0};
  TimePoint seen_at_{0};
  bool known_ = false;
  bool ever_seen_ = false;
  int missed_for_ = 0;  // As many gates more.
};

/// When to enqueue on which stream, so that all streams arrive at the same time.
struct StopStart {
  std::size_t index = 0;  ///< Of the stream.
  std::chrono::nanoseconds after{0};
  /// Not at that time, but as soon as another stream has arrived.
  bool follows = false;
};

/// Deepest first; streams with similar depths start together, and all do if every reach is short.
/// Beside one that may be deep or was late, those follow whose reach is short, or shorter than the
/// largest error: they would otherwise stand for as long as that one arrives later than predicted.
/// Those that follow come last, and the first one never follows. None does unless `may_follow`.
std::vector<StopStart> schedule_stops(std::span<const Backlog> backlogs, bool may_follow = true);
/// From the first arrival to the last, if backlogs are as wrong as they were lately.
struct PredictedSkew {
  std::chrono::nanoseconds skew{0};
  std::size_t index = 0;  ///< The stream that is the reason, if there is any skew.
};
PredictedSkew predict_skew(std::span<const Backlog> backlogs, bool may_follow = true);

}  // namespace vma
