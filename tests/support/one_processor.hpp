#pragma once

#include <sched.h>

namespace vma {

/// Within its scope, this thread and the threads that it starts run on one processor, which no
/// other test process uses if there are enough. On a stepped machine only one thread is awake at a
/// time, and waking a thread on another processor costs more than what it does. Has no effect if
/// the system refuses.
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
