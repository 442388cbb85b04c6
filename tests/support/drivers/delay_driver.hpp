#pragma once

#include "base/mutex.hpp"
#include "support/drivers/intercept_driver.hpp"

#include <map>

namespace vma {

/// Delays chosen calls, by the driver's clock, before they reach the inner driver.
///
/// Counts all calls of all threads together, from 0 at the last `delay_call_number`.
class DelayDriver final : public InterceptDriver {
 public:
  using InterceptDriver::InterceptDriver;

  /// From now on every `call` is delayed by `duration`; zero ends this.
  void delay_each(Call call, TimePoint duration);
  /// Starts a new count; the call with that number is delayed.
  void delay_call_number(int number, TimePoint duration);

  /// The calls counted, and how many were delayed, since the last `delay_call_number`.
  int counted() const;
  int fired() const;

 private:
  void around(Call call, const std::function<void()>& body) override;
  /// Counts the call and returns its delay.
  TimePoint count(Call call);
  void wait(TimePoint duration);

  mutable Mutex mutex_;
  Condition never_signalled_;
  std::map<Call, TimePoint> each_ VMART_GUARDED_BY(mutex_);
  int number_ VMART_GUARDED_BY(mutex_) = -1;
  TimePoint number_duration_ VMART_GUARDED_BY(mutex_){0};
  int counted_ VMART_GUARDED_BY(mutex_) = 0;
  int fired_ VMART_GUARDED_BY(mutex_) = 0;
};

}  // namespace vma
