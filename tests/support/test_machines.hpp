#pragma once

#include "driver/driver.hpp"
#include "machine/machine_description.hpp"

#include <memory>
#include <string>

namespace vma {

/// "test-2", "test-4" or "test-islands". Each file is read once, since many plays use it.
const MachineDescription& test_machine(const std::string& name);

/// Machines that a typed suite runs on. `unavailable` says why a machine is not available, and is
/// empty if it is.

/// A simulated pair of GPUs and one host node with 4 KiB granularity, or the machine named by
/// VMART_TEST_MACHINE; each `open` makes a new one.
struct SimulatedMachine {
  static constexpr const char* name = "sim";
  static std::string unavailable();
  static std::unique_ptr<Driver> open();
};

/// The GPUs of this computer. What tests leave behind in the driver stays until the process ends.
struct CudaMachine {
  static constexpr const char* name = "cuda";
  static std::string unavailable();
  static std::unique_ptr<Driver> open();
};

}  // namespace vma
