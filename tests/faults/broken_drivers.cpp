#include "faults/broken_drivers.hpp"

#include "support/drivers/fault_driver.hpp"
#include "driver/native_codes.hpp"

namespace vma {

void LostDriver::around(Call call, const std::function<void()>& body) {
  if (can_fail(call) && counted_++ >= first_lost_) {
    throw driver_error(native_, to_string(call), "lost on purpose");
  }
  body();
}

void SkippingDriver::around(Call call, const std::function<void()>& body) {
  if (call == skipped_ && armed_ && counted_++ == number_) return;
  body();
}

void StubbornDriver::around(Call call, const std::function<void()>& body) {
  if (call == refused_ && armed_) {
    const int number = counted_++;
    if (number >= first_ && number < first_ + times_) {
      throw driver_error(native_out_of_memory, to_string(call), "refused on purpose");
    }
  }
  body();
}

SuspensionHandle HalfwayDriver::suspend(std::span<const DeviceId> gpus) {
  if (!armed_ || counted_++ != number_) return InterceptDriver::suspend(gpus);
  left_ = InterceptDriver::suspend(gpus.first(1));
  throw driver_error(native_unknown, "suspend", "the second GPU does not answer");
}

void HalfwayDriver::resume(SuspensionHandle suspension) {
  if (!is_none(suspension) || is_none(left_.load())) return InterceptDriver::resume(suspension);
  if (++resumes_ < times_) throw driver_error(native_unknown, "resume", "it does not go on yet");
  InterceptDriver::resume(left_.exchange({}));
}

}  // namespace vma
