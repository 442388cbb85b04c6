#pragma once

#include "base/clock.hpp"

#include <functional>

namespace vma {

/// Decides which thread of a stepped machine runs next. Its threads run one at a time; every point
/// where they may lose their turn is a call of this class, so that the order of steps follows from
/// a seed alone.
class Stepper {
 public:
  virtual ~Stepper() = default;

  /// The stepper that the calling thread belongs to; null on an ordinary thread.
  static Stepper* current() noexcept;

  /// Lets another thread run first, or not, depending on the seed.
  virtual void yield() = 0;
  /// Returns true once `ready` does, false if virtual time reaches `deadline` first. `ready` is
  /// called from any thread of the stepper while all others are paused; it must not block.
  virtual bool wait(const std::function<bool()>& ready, TimePoint deadline) = 0;

 protected:
  static void set_current(Stepper* stepper) noexcept;
};

}  // namespace vma
