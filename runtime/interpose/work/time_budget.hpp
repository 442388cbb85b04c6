#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace vma::interpose {

/// On a clock that never goes back.
inline std::int64_t now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Time that may be spent on something: some at first, and a share of the time that passes. Any
/// thread; no lock.
class TimeBudget {
 public:
  /// One part in `share` of the time that passes, and never more than `most_ns` at once.
  TimeBudget(std::int64_t most_ns, std::int64_t share) noexcept
      : most_ns_(most_ns), share_(share), left_ns_(most_ns), filled_ns_(now_ns()) {}

  /// Whether any is left.
  bool has_some() noexcept {
    const std::int64_t now = now_ns();
    const std::int64_t passed = now - filled_ns_.exchange(now, std::memory_order_relaxed);
    // The remainder is lost, which makes the share a little smaller.
    const std::int64_t gained = passed / share_;
    const std::int64_t left = left_ns_.fetch_add(gained, std::memory_order_relaxed) + gained;
    if (left > most_ns_) left_ns_.store(most_ns_, std::memory_order_relaxed);
    return left > 0;
  }
  void spend(std::int64_t ns) noexcept { left_ns_.fetch_sub(ns, std::memory_order_relaxed); }

  /// Spends the time that this exists.
  class Spending {
   public:
    explicit Spending(TimeBudget& budget) noexcept : budget_(budget), begin_ns_(now_ns()) {}
    ~Spending() { budget_.spend(now_ns() - begin_ns_); }
    Spending(const Spending&) = delete;
    Spending& operator=(const Spending&) = delete;

   private:
    TimeBudget& budget_;
    const std::int64_t begin_ns_;
  };

 private:
  const std::int64_t most_ns_;
  const std::int64_t share_;
  std::atomic<std::int64_t> left_ns_;
  std::atomic<std::int64_t> filled_ns_;
};

}  // namespace vma::interpose
