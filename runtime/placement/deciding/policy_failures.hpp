#pragma once

#include <vma/snapshot.hpp>

#include <array>
#include <chrono>
#include <cstdint>

namespace vma {

enum class PolicyEntry : std::uint8_t { use, tick, alloc, pressure };

struct PolicyFailureLimits {
  int in_a_row_max = 3;  ///< Per entry point of the policy; then `stay_put` replaces it.
  /// The limit for all entry points together, in a time window that begins with the first failure.
  int in_window_max = 20;
  Time window = std::chrono::seconds(10);
};

/// Counts how often the installed policy failed. A policy may always fail in one entry point, so
/// each counts separately; sporadic failures are caught by a time window. Not thread-safe.
class PolicyFailures {
 public:
  /// Why the policy has to be replaced. After the last two only by itself: its call has not
  /// returned, or ran out of memory, so that its state may be incomplete.
  enum class Replacement : std::uint8_t {
    none,
    failed_in_a_row,
    failed_in_window,
    lost,
    no_memory
  };

  explicit PolicyFailures(const PolicyFailureLimits& limits = {}) noexcept : limits_(limits) {}

  void succeeded(PolicyEntry entry) noexcept { in_a_row_.at(static_cast<std::size_t>(entry)) = 0; }
  /// `least`: how the policy is replaced if it has not failed often.
  Replacement failed(PolicyEntry entry, Time now, Replacement least = Replacement::none) noexcept {
    const int in_a_row = ++in_a_row_.at(static_cast<std::size_t>(entry));
    if (in_window_ == 0 || now > window_begin_ + limits_.window) {
      in_window_ = 0;
      window_begin_ = now;
    }
    ++in_window_;
    if (in_a_row >= limits_.in_a_row_max) return Replacement::failed_in_a_row;
    if (in_window_ >= limits_.in_window_max) return Replacement::failed_in_window;
    return least;
  }
  /// Another policy is installed.
  void forget() noexcept { *this = PolicyFailures(limits_); }
  int in_window() const noexcept { return in_window_; }
  const PolicyFailureLimits& limits() const noexcept { return limits_; }

 private:
  PolicyFailureLimits limits_;
  std::array<int, 4> in_a_row_{};  // By entry point.
  int in_window_ = 0;
  Time window_begin_{0};
};

}  // namespace vma
