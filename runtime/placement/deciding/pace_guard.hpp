#pragma once

#include <vma/snapshot.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vma {

struct PaceLimits {
  bool watches = true;  ///< False: moves are never held back.
  /// By how much moving has to raise the pace; moves that are under way for a smaller part of the
  /// time are not tested, since they cannot cost more.
  double gain = 0.02;
  Time untested = std::chrono::milliseconds(500);  ///< Time under way before the first trial.
  Time lasts = std::chrono::seconds(2);            ///< What moves leave behind counts for so long.
  Time window = std::chrono::milliseconds(100);    ///< In the first round; doubles with each.
  Time back_off = std::chrono::seconds(10);        ///< After the first verdict; doubles with each.
  Time trust = std::chrono::seconds(20);           ///< The same if moves go on.
  Time back_off_max = std::chrono::minutes(10);    ///< For both.
  /// A program without progress for so long is idle: it takes no harm, and there is no verdict.
  Time idle = std::chrono::seconds(10);
};

/// What a trial has shown.
struct PaceVerdict {
  bool pays = false;
  // Logarithms of paces: how much faster the program is while moves are made, and behind a window
  // of them; and both together, the latter for as long as it counts.
  double during = 0, behind = 0, worth = 0;
  double about = 0;  ///< The confidence interval of `worth`, up and down.
  std::size_t pairs = 0;
  Time window{0}, back_off{0};  ///< At least of a window; until the next trial.
};

/// Text for people: "moves stop for 10 s: ...".
std::string to_string(const PaceVerdict& verdict);

/// Whether the moves of policies pay, by the pace of the program: how often it reports uses. It
/// knows no costs and no savings, so it sees stalls, links that moves take from reads, and uses
/// that are reported wrongly.
///
///            moves were under way for `untested`
///    moving ------------------------------------> trial: windows without, with, without, ...
///      ^                                            |     |             ^
///      +----- it pays, or there is nothing to test -+     | it does     | after the back-off,
///                                                         v not pay     | or at a slower pace
///                                                      resting ---------+
///
/// A window begins and ends where a burst of reports begins, so that it has whole bursts.
/// One without moves begins once those that were under way have ended. A window with moves is
/// compared with the mean of those around it: what moves do while they are made. The difference of
/// these two is what moves leave behind, which counts for `lasts`, so that memory may first be
/// brought to where it is used. Three to five such pairs are a round. The one-sided t test
/// (Student, "The Probable Error of a Mean", Biometrika 1908) at 0.5 % decides after each pair from
/// the third on. A round without a result is followed by one with windows twice as long, if moves
/// seem to harm; otherwise, and after the fourth one, they go on. So a trial takes 15 s at most, or
/// 40 bursts where these take longer than the windows.
///
/// Pure; one thread at a time calls it.
/// One owner: the state of one trial, which each look may change as a whole.
class PaceGuard {
 public:
  explicit PaceGuard(const PaceLimits& limits = {}) : limits_(limits) {}

  /// A move of a policy begins or has ended.
  void move_began(Time now) noexcept;
  void move_ended(Time now) noexcept;
  /// The program has made so much progress since it began. Call it about every millisecond.
  void look(Time now, std::uint64_t progress) noexcept;
  /// Another policy decides from now on. Moves that are under way stay so.
  void forget() noexcept;

  /// Whether moves that have not begun have to wait.
  bool holds() const noexcept { return phase_ == Phase::without || phase_ == Phase::resting; }
  /// Whether moving does not pay: waiting moves are given up.
  bool rests() const noexcept { return phase_ == Phase::resting; }
  /// The last verdict; none at first and while it is tested again.
  const std::optional<PaceVerdict>& verdict() const noexcept { return verdict_; }
  /// Once for each verdict.
  std::optional<PaceVerdict> take_news() noexcept;

 private:
  enum class Phase : std::uint8_t { moving, without, with, resting };
  static constexpr std::size_t pairs_min = 3, pairs_max = 5;
  static constexpr int rounds_max = 4;

  struct Sample {
    void add(double value) noexcept;
    void clear() noexcept { count = 0; }
    double mean() const noexcept;
    double deviation() const noexcept;
    double error() const noexcept;  // That of the mean.

    std::array<double, pairs_max> values{};
    std::size_t count = 0;
  };

  void pass(Time now) noexcept;
  void enter(Phase phase) noexcept;
  void begin_trial() noexcept;
  void end_trial() noexcept;
  void arrived(Time gap) noexcept;
  void close_window(double pace) noexcept;
  void add_pair(double after) noexcept;
  PaceVerdict test() const noexcept;
  void judge() noexcept;
  void decide(PaceVerdict verdict) noexcept;
  void watch_resting(double pace) noexcept;

  PaceLimits limits_;
  Phase phase_ = Phase::moving;
  Time now_{0}, phase_since_{0};
  // Moves.
  std::size_t under_way_ = 0;
  std::uint64_t begun_ = 0, begun_before_ = 0;  // In all, and when the phase began.
  Time moved_for_{0};                           // Less `gain` of all time; at most `untested`.
  // Arrivals, and the window.
  std::uint64_t progress_ = 0, window_progress_ = 0;
  Time arrived_{0}, longest_gap_{0};
  std::optional<Time> window_began_;
  // The trial. Paces are logarithms.
  int first_round_ = 0, round_ = 0, windows_without_moves_ = 0;
  std::optional<double> before_;
  double with_ = 0;
  bool moved_ = false;  // In the window that `with_` is of.
  Sample during_, behind_, paces_with_, paces_resting_;
  // Behind it.
  Time until_{0}, back_off_{limits_.back_off}, trust_{limits_.trust};
  bool ended_early_ = false;
  std::optional<PaceVerdict> verdict_;
  bool is_news_ = false;
};

}  // namespace vma
