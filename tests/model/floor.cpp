#include "model/floor.hpp"

namespace vma {

Floor::Beside::Beside(Floor& floor) : floor_(floor) {
  MutexLock lock(floor.mutex_);
  floor.changed_.wait(
      lock, [&]() VMART_NO_THREAD_ANALYSIS { return !floor.alone_ && floor.waiting_alone_ == 0; });
  ++floor.inside_;
}

Floor::Beside::~Beside() {
  const MutexLock lock(floor_.mutex_);
  --floor_.inside_;
  floor_.changed_.notify_all();
}

Floor::Alone::Alone(Floor& floor) : floor_(floor) {
  MutexLock lock(floor.mutex_);
  ++floor.waiting_alone_;
  floor.changed_.wait(
      lock, [&]() VMART_NO_THREAD_ANALYSIS { return !floor.alone_ && floor.inside_ == 0; });
  --floor.waiting_alone_;
  floor.alone_ = true;
}

Floor::Alone::~Alone() {
  const MutexLock lock(floor_.mutex_);
  floor_.alone_ = false;
  floor_.changed_.notify_all();
}

}  // namespace vma
