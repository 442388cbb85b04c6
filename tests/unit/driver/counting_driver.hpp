#pragma once

#include "support/drivers/intercept_driver.hpp"
#include "support/test_machines.hpp"

#include <array>
#include <functional>

namespace vma {

/// Counts the calls and makes none of them: results are zero. For tests of the layers in front of a
/// driver. Single-threaded.
class CountingDriver final : public InterceptDriver {
 public:
  CountingDriver() : InterceptDriver(SimulatedMachine::open()) {}

  int calls(Call call) const { return calls_[static_cast<std::size_t>(call)]; }

 private:
  void around(Call call, const std::function<void()>&) override {
    ++calls_[static_cast<std::size_t>(call)];
  }

  std::array<int, call_count> calls_{};
};

}  // namespace vma
