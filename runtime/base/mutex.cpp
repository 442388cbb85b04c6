#include "base/mutex.hpp"

namespace vma {

void Mutex::lock() {
  Stepper* stepper = Stepper::current();
  if (stepper == nullptr) return native_.lock();
  stepper->yield();
  while (!native_.try_lock()) stepper->wait([this] { return is_free(); }, never);
}

bool Mutex::is_free() {
  if (!native_.try_lock()) return false;
  native_.unlock();
  return true;
}

}  // namespace vma
