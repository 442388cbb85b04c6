#pragma once

#include <sched.h>

namespace vma {

/// While it lives, the calling thread and those that it starts run on the processor that it is on.
///
/// For threads of which one at a time is awake: to wake the next one on another processor takes
/// longer than what it then does. Where the system refuses, nothing changes.
class OneProcessor {
 public:
  OneProcessor() noexcept;
  ~OneProcessor();
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;

 private:
  cpu_set_t before_;
  bool bound_ = false;
};

}  // namespace vma
