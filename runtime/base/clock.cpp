#include "base/clock.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace vma {
namespace {

thread_local Stepper* current_stepper = nullptr;

/// On x86, the counter is invariant if leaf 0x80000007 says so (Intel's manual, volume 3,
/// "Invariant TSC"). The generic timer of 64-bit Arm always is.
bool counts_evenly() noexcept {
#if defined(__x86_64__)
  constexpr unsigned leaf = 0x80000007, invariant = 1u << 8;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(leaf, &a, &b, &c, &d) != 0 && (d & invariant) != 0;
#elif defined(__aarch64__)
  return true;
#else
  return false;
#endif
}

}  // namespace

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

TickClock::TickClock(const Clock& clock)
    : clock_(clock),
      by_counter_(counts_evenly() && dynamic_cast<const SteadyClock*>(&clock) != nullptr),
      first_(by_counter_ ? read_both() : Pair{}),
      last_(first_) {}

/// Keeps the pair that was read fastest, because a thread may be preempted between the two reads.
TickClock::Pair TickClock::read_both() const noexcept {
  constexpr int tries = 4;
  Pair best;
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < tries; ++i) {
    const std::int64_t before = stamp();
    const TimePoint time = clock_.now();
    const std::int64_t after = stamp();
    if (after - before >= shortest) continue;
    shortest = after - before;
    best = {before + (after - before) / 2, time};
  }
  return best;
}

void TickClock::compare() noexcept {
  if (by_counter_) last_ = read_both();
}

TimePoint TickClock::time_of(std::int64_t stamp) const noexcept {
  if (!by_counter_) return TimePoint(stamp);
  const std::int64_t ticks = last_.ticks - first_.ticks;
  if (ticks <= 0) return last_.time;
  const double tick_ns =
      static_cast<double>((last_.time - first_.time).count()) / static_cast<double>(ticks);
  const auto ago = static_cast<double>(std::max<std::int64_t>(last_.ticks - stamp, 0)) * tick_ns;
  return std::max(first_.time, last_.time - TimePoint(static_cast<std::int64_t>(ago)));
}

}  // namespace vma
