#pragma once

#include "base/mutex.hpp"

namespace vma {

/// Coordinates operations: many at the same time, or one alone. Threads of a stepped machine may
/// wait here too.
class Floor {
 public:
  /// An operation that runs next to others.
  class Beside {
   public:
    explicit Beside(Floor& floor);
    ~Beside();
    Beside(const Beside&) = delete;
    Beside& operator=(const Beside&) = delete;

   private:
    Floor& floor_;
  };
  /// An operation that excludes all others. Requires: the thread is not inside already.
  class Alone {
   public:
    explicit Alone(Floor& floor);
    ~Alone();
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;

   private:
    Floor& floor_;
  };

 private:
  Mutex mutex_;
  Condition changed_;
  int inside_ VMART_GUARDED_BY(mutex_) = 0;
  int waiting_alone_ VMART_GUARDED_BY(mutex_) = 0;
  bool alone_ VMART_GUARDED_BY(mutex_) = false;
};

}  // namespace vma
