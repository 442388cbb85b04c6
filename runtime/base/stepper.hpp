#pragma once

#include "base/clock.hpp"

#include <functional>

namespace vma {

/// Decides which thread of a stepped machine runs next. Threads that belong to one run one at a
/// time; everywhere that they may lose their turn is a call of this class, so that an order of
/// steps follows from a seed alone.
class Stepper {
 public:
  virtual ~Stepper() = default;

  /// The stepper that the calling thread belongs to; null on a thread of the operating system's.
  static Stepper* current() noexcept;

  /// Lets another thread run first, or not, as the seed has it.
  virtual void yield() = 0;
  /// Returns true once `ready` is, false when virtual time has reached `deadline` before. `ready`
  /// is called from any thread of the stepper while all others stand still; it must not block.
  virtual bool wait(const std::function<bool()>& ready, TimePoint deadline) = 0;

 protected:
  static void set_current(Stepper* stepper) noexcept;
};

}  // namespace vma
