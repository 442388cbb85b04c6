#pragma once

#include "base/clock.hpp"
#include "base/executor.hpp"

#include <cstdint>
#include <functional>

namespace vma {

/// What a simulated machine needs from an executor that steps its threads in virtual time. Tests
/// provide one: `SteppedExecutor`.
class SteppedThreads : public Executor, public Stepper {
 public:
  /// Runs `body` as a member on the calling thread, alongside the other members. Throws: whatever
  /// the body throws. Requires: not called by a member, nor by two threads at once.
  virtual void run(const std::function<void()>& body) = 0;
  /// Lets another member run first, depending on the seed. Takes no time.
  virtual void give_way() = 0;
  virtual TimePoint now() const noexcept = 0;
  /// Lets virtual time pass for the calling member, while others run.
  virtual void sleep(TimePoint duration) = 0;
  /// A pseudo-random number determined by the seed.
  virtual std::uint64_t random() = 0;
};

}  // namespace vma
