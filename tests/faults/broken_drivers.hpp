#pragma once

#include "support/drivers/intercept_driver.hpp"

#include <atomic>
#include <memory>
#include <span>

namespace vma {

/// From a chosen call on, every call that can fail does fail, as if the driver or the device were
/// gone.
class LostDriver final : public InterceptDriver {
 public:
  /// All of them fail with code `native` from call number `first_lost` on.
  LostDriver(Driver& inner, int first_lost, int native)
      : InterceptDriver(inner), first_lost_(first_lost), native_(native) {}

  bool lost() const noexcept { return counted_ > first_lost_; }

 private:
  void around(Call call, const std::function<void()>& body) override;

  const int first_lost_;
  const int native_;
  std::atomic<int> counted_{0};
};

/// Skips a chosen call but pretends that it was made, as if the runtime had forgotten it. Only for
/// calls that return nothing.
class SkippingDriver final : public InterceptDriver {
 public:
  SkippingDriver(Driver& inner, Call skipped, int number)
      : InterceptDriver(inner), skipped_(skipped), number_(number) {}

  bool skipped() const noexcept { return counted_ > number_; }
  void set_armed(bool armed) noexcept { armed_ = armed; }

 private:
  void around(Call call, const std::function<void()>& body) override;

  const Call skipped_;
  const int number_;
  std::atomic<bool> armed_{true};
  std::atomic<int> counted_{0};
};

/// Calls of one kind fail `times` times in a row, from call number `first` of that kind on.
class StubbornDriver final : public InterceptDriver {
 public:
  StubbornDriver(Driver& inner, Call refused, int first, int times)
      : InterceptDriver(inner), refused_(refused), first_(first), times_(times) {}

  bool refused() const noexcept { return counted_ > first_; }
  void set_armed(bool armed) noexcept { armed_ = armed; }

 private:
  void around(Call call, const std::function<void()>& body) override;

  const Call refused_;
  const int first_;
  const int times_;
  std::atomic<bool> armed_{true};
  std::atomic<int> counted_{0};
};

/// A chosen suspension fails when the first GPU is off already, which may stay so until the
/// `times`-th resume.
class HalfwayDriver final : public InterceptDriver {
 public:
  HalfwayDriver(Driver& inner, int number, int times)
      : InterceptDriver(inner), number_(number), times_(times) {}

  bool failed() const noexcept { return counted_ > number_; }
  void set_armed(bool armed) noexcept { armed_ = armed; }

  SuspensionHandle suspend(std::span<const DeviceId> gpus) override;
  void resume(SuspensionHandle suspension) override;

 private:
  void around(Call, const std::function<void()>& body) override { body(); }

  const int number_, times_;
  std::atomic<bool> armed_{true};
  std::atomic<int> counted_{0}, resumes_{0};
  std::atomic<SuspensionHandle> left_{};
};

}  // namespace vma
