#pragma once

#include "driver/driver.hpp"
#include "machine/machine_description.hpp"

#include <memory>
#include <string>

namespace vma {

/// "test-2", "test-4" or "test-islands". Many plays are made of one; its file is read once.
const MachineDescription& test_machine(const std::string& name);

/// Machines that a typed suite runs on. `unavailable` says why a machine cannot be had, and is
/// empty where it can.

/// A simulated pair of GPUs and one host node with 4 KiB granularity, or the machine that
/// VMART_TEST_MACHINE names; each `open` is a new one.
struct SimulatedMachine {
  static constexpr const char* name = "sim";
  static std::string unavailable();
  static std::unique_ptr<Driver> open();
};

/// The GPUs of this machine. What tests leave behind in the driver stays until the process ends.
struct CudaMachine {
  static constexpr const char* name = "cuda";
  static std::string unavailable();
  static std::unique_ptr<Driver> open();
};

}  // namespace vma
