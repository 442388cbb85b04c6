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
  if (pauses_.load() == 0) latest_end_ns_ = 0;
  std::int64_t latest = latest_end_ns_.load();
  while (latest < end && !latest_end_ns_.compare_exchange_weak(latest, end)) {
  }
  pauses_.fetch_add(1);
}

/// A launch of this thread would wait in the driver as well, so this does not wait for long.
void LaunchPause::wait() const noexcept {
  const std::int64_t end = latest_end_ns_.load();  // And not that of a pause that begins later.
  while (pauses_.load() > 0 && time_ns() < end) std::this_thread::yield();
}

}  // namespace vma::interpose
