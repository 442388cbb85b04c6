#pragma once

#include "support/drivers/intercept_driver.hpp"

#include <atomic>

namespace vma {

/// Replaces the operator new of the program that is linked with it. Asked before each allocation of
/// any thread, except inside a `Spared`; true: the allocation throws std::bad_alloc. Must not
/// allocate. Null: none fails.
inline std::atomic<bool (*)()> allocation_fails{nullptr};

/// While it lives, no allocation fails on this thread.
class Spared {
 public:
  Spared() noexcept;
  ~Spared();
  Spared(const Spared&) = delete;
  Spared& operator=(const Spared&) = delete;
};

/// Allocations of the simulated machine do not fail: it stands for a driver that does not use this
/// heap.
class SparedDriver : public InterceptDriver {
 public:
  using InterceptDriver::InterceptDriver;

 private:
  void around(Call, const std::function<void()>& body) override {
    const Spared spare;
    body();
  }
};

}  // namespace vma
