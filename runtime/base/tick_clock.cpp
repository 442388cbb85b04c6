#include "base/tick_clock.hpp"

#include <algorithm>
#include <limits>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace vma {
namespace {

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
