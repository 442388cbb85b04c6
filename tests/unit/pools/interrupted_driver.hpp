#pragma once

#include "driver/native_codes.hpp"
#include "support/drivers/intercept_driver.hpp"

#include <atomic>
#include <functional>
#include <utility>

namespace vma {

/// Runs a function before the next call of a kind, and fails all calls of another kind.
class InterruptedDriver final : public InterceptDriver {
 public:
  using InterceptDriver::InterceptDriver;

  /// Called by the thread that makes the call.
  void before_next(Call call, std::function<void()> body) {
    next_ = call;
    body_ = std::move(body);
  }
  void fail(Call call, int native = native_unknown) {
    native_ = native;
    failed_ = 0;
    failing_ = static_cast<int>(call);
  }
  void fail_nothing() { failing_ = -1; }
  /// Since `fail`.
  int failed() const { return failed_; }

 private:
  void around(Call call, const std::function<void()>& body) override {
    if (failing_ == static_cast<int>(call)) {
      ++failed_;
      throw driver_error(native_, "a test");
    }
    if (body_ && call == next_) std::exchange(body_, {})();
    body();
  }

  std::function<void()> body_;
  std::atomic<Call> next_{};
  std::atomic<int> failing_{-1}, failed_{0}, native_{0};
};

}  // namespace vma
