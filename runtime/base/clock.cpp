#include "base/clock.hpp"

#include <algorithm>
#include <cstdint>
#include <thread>

namespace vma {
namespace {
thread_local Stepper* current_stepper = nullptr;
}

Stepper* Stepper::current() noexcept {
  return current_stepper;
}
void Stepper::set_current(Stepper* stepper) noexcept {
  current_stepper = stepper;
}

TimePoint SteadyClock::now() const {
  return std::chrono::duration_cast<TimePoint>(std::chrono::steady_clock::now().time_since_epoch());
}

std::chrono::steady_clock::time_point SteadyClock::wake_time(TimePoint deadline) const {
  return std::chrono::steady_clock::time_point(
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(deadline));
}

void Poll::pause() {
  constexpr int rounds_spun = 2'000;  // About 20-100 us of polls of a driver's event.
  constexpr int rounds_yielded = 20'000;
  ++rounds_;
  if (Stepper* stepper = Stepper::current()) return stepper->yield();
  if (rounds_ < rounds_spun) return;
  if (rounds_ >= rounds_yielded) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    return;
  }
  // On a busy computer, a yield may last for a time slice of milliseconds. It then counts as
  // several rounds, so that a wait yields for about 10 ms in total.
  constexpr std::chrono::nanoseconds usual_yield(500);
  const auto begin = std::chrono::steady_clock::now();
  std::this_thread::yield();
  const auto lasted = std::chrono::steady_clock::now() - begin;
  rounds_ += static_cast<int>(std::min<std::int64_t>(lasted / usual_yield, rounds_yielded));
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
