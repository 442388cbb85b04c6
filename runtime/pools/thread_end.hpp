#pragma once

#include "base/ids.hpp"

#include <atomic>
#include <memory>

namespace vma {

/// The handle that names another stream in each thread, which ends with the thread.
inline constexpr StreamHandle stream_of_thread{2};

/// True once a thread has ended. Also names the thread: while somebody keeps it, no other thread
/// has the same one.
using ThreadEnd = std::shared_ptr<const std::atomic<bool>>;

/// That of the calling thread.
inline ThreadEnd this_thread_end() {
  struct Flag {
    ~Flag() { *ended = true; }
    const std::shared_ptr<std::atomic<bool>> ended = std::make_shared<std::atomic<bool>>(false);
  };
  thread_local const Flag flag;
  return flag.ended;
}

}  // namespace vma
