#include "support/test_machines.hpp"

#include <vma/error.hpp>

#ifdef VMART_HAS_CUDA
#include "driver/cuda_driver.hpp"
#endif
#include "machine/machine_file.hpp"
#include "sim/sim_driver.hpp"

#include <cstdlib>
#include <map>

namespace vma {

const MachineDescription& test_machine(const std::string& name) {
  static const std::map<std::string, MachineDescription> machines = {
      {"test-2", load_machine("test-2")},
      {"test-4", load_machine("test-4")},
      {"test-islands", load_machine("test-islands")}};
  return machines.at(name);
}

std::string SimulatedMachine::unavailable() {
  return "";
}
std::unique_ptr<Driver> SimulatedMachine::open() {
  const char* machine = std::getenv("VMART_TEST_MACHINE");
  return std::make_unique<SimDriver>(load_machine(machine != nullptr ? machine : "test-2"));
}

#ifdef VMART_HAS_CUDA
std::string CudaMachine::unavailable() {
  try {
    // Left open, because it keeps the primary contexts, whose creation is most of a test's time.
    static CudaDriver* const driver = [] {
      auto* opened = new CudaDriver;
      for (int gpu = 0; gpu < opened->device_count(); ++gpu) opened->retain_primary(DeviceId{gpu});
      return opened;
    }();
    return driver->device_count() > 0 ? "" : "no GPU";
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::no_driver) return error.what();
    throw;  // A machine with a driver that does not work is a failure.
  }
}
std::unique_ptr<Driver> CudaMachine::open() {
  return std::make_unique<CudaDriver>();
}
#else
std::string CudaMachine::unavailable() {
  return "built without the CUDA driver";
}
std::unique_ptr<Driver> CudaMachine::open() {
  return nullptr;
}
#endif

}  // namespace vma
