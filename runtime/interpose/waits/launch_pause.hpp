#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace vma::interpose {

/// Lets threads of the program wait before they enqueue, while a move has launches of its own to
/// make. A thread that has begun a call is not waited for. Any thread; no lock.
class LaunchPause {
 public:
  /// Never destroyed: threads launch until the process ends.
  static LaunchPause& get() noexcept;

  /// A pause of at most `limit_ns` begins; zero ends one. Several may overlap.
  void change(std::int64_t limit_ns) noexcept;
  /// Blocks: while there is a pause, and no longer than the longest one may take.
  void await_end() noexcept {
    if (pauses_.load(std::memory_order_relaxed) != 0) wait();
  }

 private:
  using Clock = std::chrono::steady_clock;

  LaunchPause() = default;
  void wait() const noexcept;

  std::atomic<int> pauses_ = 0;
  std::atomic<Clock::time_point> latest_end_ = Clock::time_point();
};

}  // namespace vma::interpose
