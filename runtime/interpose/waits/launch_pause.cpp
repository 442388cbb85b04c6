#include "interpose/waits/launch_pause.hpp"

#include "base/process_exit.hpp"

#include <thread>

namespace vma::interpose {

LaunchPause& LaunchPause::get() noexcept {
  static Immortal<LaunchPause> pause([] { return LaunchPause(); });
  return *pause;
}

void LaunchPause::change(std::int64_t limit_ns) noexcept {
  if (limit_ns <= 0) {
    pauses_.fetch_sub(1);
    return;
  }
  const Clock::time_point end = Clock::now() + std::chrono::nanoseconds(limit_ns);
  if (pauses_.load() == 0) latest_end_ = Clock::time_point();
  Clock::time_point latest = latest_end_.load();
  while (latest < end && !latest_end_.compare_exchange_weak(latest, end)) {
  }
  pauses_.fetch_add(1);
}

/// A launch of this thread would wait in the driver as well, so this does not wait for long.
void LaunchPause::wait() const noexcept {
  const Clock::time_point end = latest_end_.load();  // And not that of a pause that begins later.
  while (pauses_.load() > 0 && Clock::now() < end) std::this_thread::yield();
}

}  // namespace vma::interpose
