#include "sim/sim_clock.hpp"

#include "sim/stepped_executor.hpp"

#include <algorithm>

namespace vma {

TimePoint SimClock::now() const {
  return stepped_ != nullptr ? stepped_->now() : TimePoint(ticks_.load());
}

std::chrono::steady_clock::time_point SimClock::wake_time(TimePoint deadline) const {
  // No wait on a simulated machine lasts longer than this in real time in one go.
  constexpr auto longest = std::chrono::hours(24);
  const TimePoint left = std::min<TimePoint>(deadline - now(), longest);
  return std::chrono::steady_clock::now() + left;
}

void SimClock::reached(TimePoint time) {
  if (stepped_ != nullptr) return;
  TimePoint::rep seen = ticks_.load();
  while (seen < time.count() && !ticks_.compare_exchange_weak(seen, time.count())) {
  }
}

void SimClock::spend(TimePoint duration) {
  if (stepped_ != nullptr) return stepped_->sleep(duration);
  ticks_.fetch_add(duration.count());
}

void SimClock::sleep_until(TimePoint time) {
  if (stepped_ != nullptr) return stepped_->sleep(time - stepped_->now());
  reached(time);
}

}  // namespace vma
