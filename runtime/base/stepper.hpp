#pragma once

#include "base/clock.hpp"

#include <functional>

namespace vma {

/// Decides which thread of a stepped machine runs next. Its threads run one at a time. Every point
/// where they may lose their turn is a call of this class, so the order of steps depends only on a
/// seed.
class Stepper {
 public:
  virtual ~Stepper() = default;

  /// The stepper of the calling thread; null on an ordinary thread.
  static Stepper* current() noexcept;

  /// May let another thread run first, depending on the seed.
  virtual void yield() = 0;
  /// Returns true once `ready` does, or false if virtual time reaches `deadline` first. Any thread
  /// of the stepper calls `ready` while all others are paused, so it must not block.
  virtual bool wait(const std::function<bool()>& ready, TimePoint deadline) = 0;

 protected:
  static void set_current(Stepper* stepper) noexcept;
};

}  // namespace vma
