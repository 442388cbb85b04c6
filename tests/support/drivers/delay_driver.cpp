#include "support/drivers/delay_driver.hpp"

#include <algorithm>

namespace vma {

void DelayDriver::delay_each(Call call, TimePoint duration) {
  MutexLock lock(mutex_);
  each_[call] = duration;
}

void DelayDriver::delay_call_number(int number, TimePoint duration) {
  MutexLock lock(mutex_);
  number_ = number;
  number_duration_ = duration;
  counted_ = 0;
  fired_ = 0;
}

int DelayDriver::counted() const {
  MutexLock lock(mutex_);
  return counted_;
}

int DelayDriver::fired() const {
  MutexLock lock(mutex_);
  return fired_;
}

TimePoint DelayDriver::count(Call call) {
  MutexLock lock(mutex_);
  const auto found = each_.find(call);
  TimePoint duration = found == each_.end() ? TimePoint{0} : found->second;
  if (counted_++ == number_) duration = std::max(duration, number_duration_);
  if (duration > TimePoint{0}) ++fired_;
  return duration;
}

void DelayDriver::wait(TimePoint duration) {
  const Stopped standing(clock());
  const TimePoint deadline = clock().now() + duration;
  Mutex own;  // A local mutex, so that calls of other threads are not blocked.
  MutexLock lock(own);
  never_signalled_.wait_until(lock, clock(), deadline, [] { return false; });
}

void DelayDriver::around(Call call, const std::function<void()>& body) {
  const TimePoint duration = count(call);
  if (duration > TimePoint{0}) wait(duration);
  body();
}

}  // namespace vma
