#pragma once

#include "gpu/gpu_rig.hpp"
#include "machine/machine_file.hpp"
#include "sim/sim_driver.hpp"
#include "support/sanitizer.hpp"
#include "support/test_machines.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

namespace vma {

/// Two simulated GPUs with the granularity and the costs of real ones.
struct SimulatedGpus {
  static constexpr const char* name = "sim";
  static std::string unavailable() { return ""; }
  static std::unique_ptr<Driver> open() {
    return std::make_unique<SimDriver>(load_machine("h200x2"));
  }
};

/// Why tests on this kind of machine are not wanted; empty if they are.
template <typename Machine>
std::string why_not_chosen() {
  const char* chosen = std::getenv("VMART_GPU_TEST");
  const bool other = chosen != nullptr && std::string_view(chosen) != Machine::name;
  return other ? std::string("VMART_GPU_TEST=") + chosen : "";
}

/// Why tests on this kind of machine are skipped before it is opened; empty if they are not.
template <typename Machine>
std::string why_left_out() {
  if (const std::string why = why_not_chosen<Machine>(); !why.empty()) return why;
  if (under_thread_sanitizer && std::string_view(Machine::name) == "sim") {
    return "simulated, it takes many minutes here; tests/twin is for race checkers";
  }
  return Machine::unavailable();
}

/// The base of all suites: one runtime on the machine for all tests.
template <typename Machine>
class GpuTest : public testing::Test {
 protected:
  static constexpr int gpus_needed = 2;

  static void SetUpTestSuite() {
    why_not_ = why_left_out<Machine>();
    if (!why_not_.empty()) return;
    auto rig = std::make_unique<GpuRig>(Machine::open());
    std::printf("on %s\n", rig->runtime().description().c_str());
    if (rig->gpus() < gpus_needed) {
      why_not_ = "needs 2 GPUs, has " + std::to_string(rig->gpus());
      return;
    }
    rig_ = std::move(rig);
  }
  static void TearDownTestSuite() { rig_.reset(); }

  void SetUp() override {
    if (!rig_) GTEST_SKIP() << "SKIPPED: " << why_not_;
  }
  void TearDown() override {
    if (rig_) rig_->comes_to_rest();
  }

  static GpuRig& rig() { return *rig_; }
  static Runtime& runtime() { return rig_->runtime(); }
  /// Returns `gpus` on GPUs, and the smaller `simulated` if a processor does their work.
  static int on_gpus_or_simulated(int gpus, int simulated) {
    return rig_->simulated() ? simulated : gpus;
  }

 private:
  static inline std::unique_ptr<GpuRig> rig_;
  static inline std::string why_not_;
};

using GpuMachines = testing::Types<SimulatedGpus, CudaMachine>;

struct GpuMachineNames {
  template <typename Machine>
  static std::string GetName(int) {
    return Machine::name;
  }
};

}  // namespace vma
