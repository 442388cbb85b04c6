#pragma once

#include "base/clock.hpp"

#include <cstdint>

namespace vma {

/// Stamps events with the time of a clock. If the clock is real and the processor's counter has the
/// same rate on all cores, uses the counter: that takes 10 ns instead of the 30 to 40 ns of reading
/// a clock on a virtual machine. Otherwise a stamp is the clock's time.
class TickClock {
 public:
  /// Requires: `clock` outlives this object.
  explicit TickClock(const Clock& clock);

  // --- Any thread
  std::int64_t stamp() const noexcept {
    return by_counter_ ? read_counter() : clock_.now().count();
  }
  bool by_counter() const noexcept { return by_counter_; }

  // --- One thread at a time
  /// Call this before converting stamps to times; the sooner after the stamps, the more precise.
  /// Costs as much as a few clock reads.
  void compare() noexcept;
  /// At most the time of the last `compare`. Requires: the stamp was taken after construction and
  /// before that call.
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
