#pragma once

#include <ctime>

namespace vma {

/// Processor time of the calling thread, so that other load on the computer does not count.
inline double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace vma
