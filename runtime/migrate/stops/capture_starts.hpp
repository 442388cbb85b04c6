#pragma once

#include "base/process_exit.hpp"
#include "driver/captures_begun.hpp"

#include <chrono>
#include <mutex>
#include <shared_mutex>

namespace vma {

/// Shared by the program's calls with which captures begin, and held by gates while they look for
/// captures and enqueue stops. A stop in a legacy stream would end the capture of a blocking stream
/// that has begun since it was looked for. Any thread.
inline std::shared_timed_mutex& capture_starts() noexcept {
  static Immortal<std::shared_timed_mutex> mutex;
  return *mutex;
}

/// The program calls `let_no_stop_be_enqueued` before each capture from now on. `any_yet`: one may
/// have begun before.
inline void captures_will_be_told(bool any_yet) noexcept {
  CapturesBegun::of_process().will_be_told(any_yet);
}

/// A capture begins, or a stream may join one, until the calling thread calls `let_stops_go_on`.
/// Blocks: while stops are enqueued, and before the first capture for `CapturesBegun::begins`.
inline void let_no_stop_be_enqueued() {
  CapturesBegun::of_process().begins();
  capture_starts().lock_shared();
}
inline void let_stops_go_on() noexcept {
  capture_starts().unlock_shared();
}

/// Keeps captures from beginning. A call of the program may take long, and may wait for work that a
/// gate holds back, so this does not wait for it: check `owns_lock`. Blocks: for 2 ms at most.
inline std::unique_lock<std::shared_timed_mutex> let_no_capture_begin() {
  constexpr auto wait_max = std::chrono::milliseconds(2);
  return std::unique_lock(capture_starts(), wait_max);
}

}  // namespace vma
