#pragma once

#include <shared_mutex>

namespace vma {

/// Held by the program's calls with which captures begin, and shared by gates while they look for
/// captures and enqueue stops. A stop in a legacy stream would end the capture of a blocking stream
/// that has begun since it was looked for. Any thread.
inline std::shared_mutex& capture_starts() noexcept {
  static std::shared_mutex& mutex = *new std::shared_mutex;  // Threads may use it until the end.
  return mutex;
}

}  // namespace vma
