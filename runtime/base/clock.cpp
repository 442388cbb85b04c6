#include "base/clock.hpp"

#include "base/stepper.hpp"

#include <algorithm>
#include <thread>

namespace vma {

TimePoint SteadyClock::now() const {
  return std::chrono::duration_cast<TimePoint>(std::chrono::steady_clock::now().time_since_epoch());
}

std::chrono::steady_clock::time_point SteadyClock::wake_time(TimePoint deadline) const {
  return std::chrono::steady_clock::time_point(
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(deadline));
}

void Poll::pause() {
  constexpr int rounds_spun = 2'000;  // About 20-100 us of looks at a driver's event.
  constexpr int rounds_yielded = 20'000;
  ++rounds_;
  if (Stepper* stepper = Stepper::current()) return stepper->yield();
  if (rounds_ < rounds_spun) return;
  if (rounds_ < rounds_yielded) return std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::microseconds(20));
}

}  // namespace vma
