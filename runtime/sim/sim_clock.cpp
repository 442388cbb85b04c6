#include "sim/sim_clock.hpp"

#include <algorithm>

namespace vma {
namespace {

thread_local int measuring_here = 0;  // Counts all machines: a thread measures on one at a time.

TimePoint real_now() {
  return SteadyClock().now();
}

}  // namespace

TimePoint SimClock::now() const {
  return stepped_ != nullptr ? stepped_->now() : TimePoint(ticks_.load());
}

std::chrono::steady_clock::time_point SimClock::wake_time(TimePoint deadline) const {
  // Bounds one wait in real time; `never` would overflow the sum below.
  constexpr auto longest = std::chrono::hours(24);
  const TimePoint left = std::min<TimePoint>(deadline - now(), longest);
  return std::chrono::steady_clock::now() + left;
}

void SimClock::reached(TimePoint time) {
  if (stepped_ != nullptr) return;
  TimePoint::rep seen = ticks_.load();
  while (seen < time.count() && !ticks_.compare_exchange_weak(seen, time.count())) {
  }
  if (seen < time.count()) moved_at_ = real_now().count();
}

bool SimClock::waited(TimePoint deadline) {
  if (stepped_ != nullptr) return true;
  if (passes_by_waiting()) reached(deadline);
  return now() >= deadline;
}

bool SimClock::passes_by_waiting() {
  if (measuring_ == 0 || standing_ > 0) return true;
  const TimePoint real = real_now();
  if (real - TimePoint(moved_at_.load()) > frozen_max) return true;
  if (working_ && working_()) {
    sign_at_ = real.count();
    return false;
  }
  return measuring_here > 0 || real - TimePoint(sign_at_.load()) > absence_max;
}

void SimClock::note_measuring(int change) noexcept {
  measuring_here += change;
  sign_at_ = real_now().count();
  measuring_ += change;
}

void SimClock::spend(TimePoint duration) {
  if (stepped_ != nullptr) return stepped_->sleep(duration);
  ticks_.fetch_add(duration.count());
  moved_at_ = real_now().count();
  if (measuring_here > 0) sign_at_ = moved_at_.load();
}

void SimClock::sleep_until(TimePoint time) {
  if (stepped_ != nullptr) return stepped_->sleep(time - stepped_->now());
  reached(time);
}

}  // namespace vma
