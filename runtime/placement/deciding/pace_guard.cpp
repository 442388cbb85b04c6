#include "placement/deciding/pace_guard.hpp"

#include "base/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace vma {
namespace {

/// Student's t at 99.5 %, one-sided, by the number of values.
constexpr std::array<double, 6> t_values{0, 0, 0, 9.925, 5.841, 4.604};
constexpr int idle_pairs_max = 3;  // In a row, without a move: then there is nothing to test.
/// Moves that stay under way for longer do not keep the window without moves from beginning.
constexpr Time settle_max = std::chrono::seconds(1);
constexpr int gap_memory = 64;      // Looks with reports, within a burst.
constexpr int pace_change_max = 8;  // By moves, as far as bursts have to be told from gaps in them.

double percent(double logarithm) {
  return 100 * std::expm1(logarithm);
}

}  // namespace

std::string to_string(const PaceVerdict& verdict) {
  const char* const what = verdict.pays ? "moves go on" : "moves stop";
  return fmt::format(
      "{} for {:.0f} s: the program's pace changes by {:+.1f} % while they are made and by "
      "{:+.1f} % behind that ({} pairs of windows of {:.0f} ms, Student's t)",
      what, in_seconds(verdict.back_off), percent(verdict.during), percent(verdict.behind),
      verdict.pairs, 1e3 * in_seconds(verdict.window));
}

// --- Sample

void PaceGuard::Sample::add(double value) noexcept {
  if (count == values.size()) std::rotate(values.begin(), values.begin() + 1, values.end());
  count = std::min(count + 1, values.size());
  values[count - 1] = value;
}

double PaceGuard::Sample::mean() const noexcept {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += values[i];
  return sum / static_cast<double>(count);
}

double PaceGuard::Sample::deviation() const noexcept {
  const double middle = mean();
  double squares = 0;
  for (std::size_t i = 0; i < count; ++i) squares += (values[i] - middle) * (values[i] - middle);
  return count < 2 ? 0 : std::sqrt(squares / static_cast<double>(count - 1));
}

double PaceGuard::Sample::error() const noexcept {
  return deviation() / std::sqrt(static_cast<double>(count));
}

// --- What happens

void PaceGuard::pass(Time now) noexcept {
  const Time passed = std::max(now - now_, Time::zero());
  now_ = std::max(now, now_);
  const auto allowed = std::chrono::duration_cast<Time>(passed * limits_.gain);
  moved_for_ += under_way_ > 0 ? passed : Time::zero();
  moved_for_ = std::clamp(moved_for_ - allowed, Time::zero(), limits_.untested);
}

void PaceGuard::move_began(Time now) noexcept {
  pass(now);
  ++under_way_;
  ++begun_;
}

void PaceGuard::move_ended(Time now) noexcept {
  pass(now);
  if (under_way_ > 0) --under_way_;
}

void PaceGuard::forget() noexcept {
  PaceGuard fresh(limits_);
  fresh.now_ = now_;
  fresh.under_way_ = under_way_;
  fresh.begun_ = begun_;
  fresh.progress_ = progress_;
  fresh.arrived_ = arrived_;
  *this = fresh;
}

std::optional<PaceVerdict> PaceGuard::take_news() noexcept {
  return std::exchange(is_news_, false) ? verdict_ : std::nullopt;
}

void PaceGuard::look(Time now, std::uint64_t progress) noexcept {
  if (!limits_.watches) return;
  pass(now);
  const bool tries = phase_ == Phase::without || phase_ == Phase::with;
  const bool idle = now_ - arrived_ > limits_.idle;
  if (idle && (tries || (phase_ == Phase::resting && now_ >= until_))) end_trial();
  if (progress == progress_) return;
  const Time gap = now_ - arrived_;
  arrived_ = now_;
  if (idle) window_began_.reset();
  const bool tested = moved_for_ >= limits_.untested && now_ >= until_;
  if (phase_ == Phase::moving && tested && !idle) begin_trial();
  if (phase_ == Phase::resting && now_ >= until_) {
    ended_early_ = false;
    begin_trial();
  }
  if (phase_ == Phase::moving) {
    longest_gap_ = std::max(gap, longest_gap_ - longest_gap_ / gap_memory);
  } else {
    arrived(gap);
  }
  progress_ = progress;
}

// --- Windows

void PaceGuard::enter(Phase phase) noexcept {
  phase_ = phase;
  phase_since_ = now_;
  begun_before_ = begun_;
  window_began_.reset();
}

/// `progress_` is what there was before this arrival: that belongs to the next window.
void PaceGuard::arrived(Time gap) noexcept {
  if (window_began_) {
    const bool begins_burst = 2 * gap >= longest_gap_;
    longest_gap_ = std::max(longest_gap_, gap);
    const Time length = limits_.window * (1 << round_);
    const Time lasted = now_ - *window_began_;
    if (lasted < length || (!begins_burst && lasted < 2 * length)) return;
    close_window(std::log(static_cast<double>(progress_ - window_progress_) / in_seconds(lasted)));
    if (phase_ == Phase::moving) return;
  }
  // The gaps are those of the window before, in which the pace may have been another one.
  const bool settled = pace_change_max * gap >= longest_gap_ && under_way_ == 0;
  if (phase_ != Phase::with && !settled && now_ - phase_since_ < settle_max) return;
  window_began_ = now_;
  window_progress_ = progress_;
  longest_gap_ = Time::zero();
}

void PaceGuard::close_window(double pace) noexcept {
  if (phase_ == Phase::resting) {
    window_began_.reset();
    return watch_resting(pace);
  }
  if (phase_ == Phase::with) {
    with_ = pace;
    moved_ = begun_ != begun_before_;
    return enter(Phase::without);
  }
  const bool paired = before_.has_value();
  if (paired) add_pair(pace);
  before_ = pace;
  if (phase_ == Phase::without) enter(Phase::with);
}

// --- The trial

void PaceGuard::begin_trial() noexcept {
  round_ = first_round_;
  windows_without_moves_ = 0;
  before_.reset();
  during_.clear();
  behind_.clear();
  paces_with_.clear();
  enter(Phase::without);
}

/// Without a verdict: the program or the policy does nothing.
void PaceGuard::end_trial() noexcept {
  moved_for_ = Time::zero();
  verdict_.reset();
  enter(Phase::moving);
}

/// `after`: the pace in the window behind that with moves.
void PaceGuard::add_pair(double after) noexcept {
  windows_without_moves_ = moved_ ? 0 : windows_without_moves_ + 1;
  if (windows_without_moves_ >= idle_pairs_max) return end_trial();
  if (!moved_) return;
  during_.add(with_ - (*before_ + after) / 2);
  behind_.add(after - *before_);
  paces_with_.add(with_);
  if (during_.count >= pairs_min) judge();
}

/// Each pair begins with the window that ends the one before it, so what is left behind adds up
/// from the first window to the last one: its error falls with the number of pairs, not its root.
PaceVerdict PaceGuard::test() const noexcept {
  PaceVerdict verdict;
  verdict.pairs = during_.count;
  verdict.window = limits_.window * (1 << round_);
  verdict.during = during_.mean();
  verdict.behind = behind_.mean();
  const double counts = 0.5 + std::max(1.0, in_seconds(limits_.lasts) / in_seconds(verdict.window));
  const double error_behind = behind_.deviation() / static_cast<double>(behind_.count);
  verdict.worth = verdict.during + counts * verdict.behind;
  verdict.about = t_values[verdict.pairs] * std::hypot(during_.error(), counts * error_behind);
  return verdict;
}

void PaceGuard::judge() noexcept {
  const double asked = std::log1p(limits_.gain);
  PaceVerdict verdict = test();
  // Both have to be below what is asked, since the program may change its pace by itself, too.
  const double during_about = t_values[verdict.pairs] * during_.error();
  const double most = std::max(verdict.during + during_about, verdict.worth + verdict.about);
  const bool gains = verdict.during - during_about > asked && verdict.worth > asked;
  verdict.pays = gains || verdict.worth - verdict.about > asked;
  if (verdict.pays || most < asked) return decide(verdict);
  if (verdict.pairs < pairs_max) return;
  if (round_ + 1 == rounds_max || verdict.during > -asked) {
    first_round_ = std::min(first_round_ + 1, rounds_max - 1);
    verdict.pays = true;  // It may, since the test does not say that it does not.
    return decide(verdict);
  }
  ++round_;
  during_.clear();
  behind_.clear();
}

void PaceGuard::decide(PaceVerdict verdict) noexcept {
  Time& back_off = verdict.pays ? trust_ : back_off_;
  verdict.back_off = back_off;
  until_ = now_ + back_off;
  back_off = std::min(2 * back_off, limits_.back_off_max);
  if (verdict.pays) back_off_ = limits_.back_off;
  if (!verdict.pays) trust_ = limits_.trust;
  verdict_ = verdict;
  is_news_ = true;
  ended_early_ = ended_early_ && !verdict.pays;
  moved_for_ = Time::zero();
  paces_resting_.clear();
  enter(verdict.pays ? Phase::moving : Phase::resting);
}

/// A program that is slower now than it was with moves may need them again, as when its use has
/// drifted away from where its memory lies. Once in a back-off, since it may also be slower by
/// itself.
void PaceGuard::watch_resting(double pace) noexcept {
  paces_resting_.add(pace);
  if (ended_early_ || paces_resting_.count < pairs_max) return;
  const double about =
      t_values[pairs_max] * std::hypot(paces_resting_.error(), paces_with_.error());
  if (paces_resting_.mean() + about > paces_with_.mean() - std::log1p(limits_.gain)) return;
  ended_early_ = true;
  begin_trial();
}

}  // namespace vma
