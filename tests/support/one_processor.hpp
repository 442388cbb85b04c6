#pragma once

#include <sched.h>

namespace vma {

/// In its scope this thread, and the threads that it starts, run on one processor, which no other
/// test process has chosen if there are enough: a stepped machine has one thread awake at a time,
/// and waking a thread on another processor costs more than what it does. Leaves everything as it
/// is where the system does not let it.
class OneProcessor {
 public:
  OneProcessor() noexcept;
  ~OneProcessor();
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;

 private:
  cpu_set_t before_{};
  bool bound_ = false;
  int claim_ = -1;
};

}  // namespace vma
