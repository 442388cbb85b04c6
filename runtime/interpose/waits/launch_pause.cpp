#include "interpose/waits/launch_pause.hpp"

#include <chrono>
#include <thread>

namespace vma::interpose {
namespace {

std::int64_t time_ns() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace

LaunchPause& LaunchPause::get() noexcept {
  static LaunchPause* const pause = new LaunchPause();
  return *pause;
}

void LaunchPause::change(std::int64_t limit_ns) noexcept {
  if (limit_ns <= 0) {
    pauses_.fetch_sub(1);
    return;
  }
  const std::int64_t end = time_ns() + limit_ns;
  std::int64_t latest = latest_end_ns_.load();
  while (latest < end && !latest_end_ns_.compare_exchange_weak(latest, end)) {
  }
  pauses_.fetch_add(1);
}

/// Some milliseconds at most, in which a launch of this thread would wait in the driver as well.
void LaunchPause::wait() const noexcept {
  while (pauses_.load() > 0 && time_ns() < latest_end_ns_.load()) std::this_thread::yield();
}

}  // namespace vma::interpose
