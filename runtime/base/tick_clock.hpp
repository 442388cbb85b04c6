#pragma once

#include "base/clock.hpp"

#include <cstdint>

namespace vma {

/// Stamps events for a clock, by the processor's counter where that counts at one rate on all cores
/// and the clock is the processor's: 10 ns in place of the 30 to 40 that asking a clock takes on a
/// virtual machine. Elsewhere a stamp is the clock's time.
class TickClock {
 public:
  /// Requires: `clock` lives longer.
  explicit TickClock(const Clock& clock);

  // --- Any thread
  std::int64_t stamp() const noexcept {
    return by_counter_ ? read_counter() : clock_.now().count();
  }
  bool by_counter() const noexcept { return by_counter_; }

  // --- One thread at a time
  /// Before stamps are asked for their times: the closer after them, the more exactly. Costs as
  /// much as a few looks at the clock.
  void compare() noexcept;
  /// Not after the last `compare`. Requires: the stamp was taken before that, and after the
  /// construction.
  TimePoint time_of(std::int64_t stamp) const noexcept;

 private:
  struct Pair {
    std::int64_t ticks = 0;
    TimePoint time{0};
  };
  static std::int64_t read_counter() noexcept {
#if defined(__x86_64__)
    return static_cast<std::int64_t>(__builtin_ia32_rdtsc());
#elif defined(__aarch64__)
    std::uint64_t ticks = 0;
    asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return static_cast<std::int64_t>(ticks);
#else
    return 0;
#endif
  }
  Pair read_both() const noexcept;

  const Clock& clock_;
  const bool by_counter_;
  const Pair first_;
  Pair last_;
};

}  // namespace vma
