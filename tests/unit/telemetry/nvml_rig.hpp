#pragma once

#include "base/clock.hpp"
#include "unit/telemetry/fake_nvml.hpp"

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <functional>

namespace vma {

/// A clock that advances when a wait lasts until its deadline and when a test advances it. Any
/// thread.
class TestClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(now_.load()); }
  std::chrono::steady_clock::time_point wake_time(TimePoint) const override {
    return std::chrono::steady_clock::now() + std::chrono::microseconds(100);
  }
  void reached(TimePoint deadline) override {
    if (deadline > now()) now_ = deadline.count();
  }
  void advance(std::chrono::nanoseconds time) { now_ += time.count(); }

 private:
  std::atomic<std::int64_t> now_{0};
};

/// The fake library, with valid answers by default.
class NvmlTest : public testing::Test {
 protected:
  NvmlTest() : nvml(*static_cast<FakeNvml*>(dlsym(dlopen(library, RTLD_NOW), "fake_nvml"))) {
    nvml.failing = FakeNvml::none;
    nvml.talks_nonsense = nvml.has_no_counters = nvml.counts_pcie_narrowly = nvml.hangs = false;
    nvml.kernels_percent = 75;
    nvml.memory_percent = 20;
    nvml.used_bytes = 30, nvml.total_bytes = 100;
    for (auto& counter : nvml.counters) counter = 1000;
    nvml.opened = nvml.closed = nvml.samples = 0;
  }

  /// Leaves no thread inside the library for the next test.
  ~NvmlTest() override {
    nvml.hangs = false;
    await_end();
  }

  /// Waits until every user that opened the library has closed it.
  void await_end() {
    await([this] { return nvml.closed >= nvml.opened; });
  }

  /// The limit is generous: it catches what never comes, not what is slow.
  static void await(const std::function<bool()>& ready) {
    SteadyClock wall;
    EXPECT_TRUE(poll_until(wall, wall.now() + std::chrono::minutes(5), ready)) << "it never came";
  }

  static constexpr const char* library = VMART_FAKE_NVML;
  FakeNvml& nvml;
};

}  // namespace vma
