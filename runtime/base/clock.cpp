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

bool poll_until(Clock& clock, TimePoint deadline, const std::function<bool()>& ready) {
  if (Stepper* stepper = Stepper::current()) return stepper->wait(ready, deadline);
  const bool limited = deadline != never;
  auto give_up = limited ? clock.wake_time(deadline) : std::chrono::steady_clock::time_point::max();
  Poll poll;
  while (!ready()) {
    if (limited && std::chrono::steady_clock::now() >= give_up) {
      if (clock.waited(deadline)) return ready();
      give_up = clock.wake_time(deadline);
    }
    poll.pause();
  }
  return true;
}

}  // namespace vma
