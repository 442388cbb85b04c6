#pragma once

#include "contract/child_process.hpp"
#include "contract/contract_rig.hpp"
#include "driver/native_codes.hpp"
#include "support/sanitizer.hpp"
#include "support/test_machines.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <type_traits>

namespace vma {

/// The base of every suite of the contract. Each test makes one claim about the driver and checks
/// it on every available machine. VMART_CONTRACT=sim or =cuda selects one of them.
///
/// Where the simulator is stricter than a real driver is known to be, a test asserts the
/// simulator's answer and reports the driver's:
///
///   test                                     simulator                      real driver
///   Faults.ACopyToReadOnlyMemoryIsRefused    by the call, nothing sticky    reported
///   Copies.KeepersAreAllowedForHost...       the cost model's time          reported
///   Stops.ABatchIsNotInOrder...              nothing runs beside it         reported
///   StoppedStreams.AWaitOf...TheirContext... launches run at once           reported: may block
///   ContextChoice.ACopyBesideAFree...        green contexts stand           reported
///   ContextChoice.AHoldBesideAFree...        the hold returns               reported: may stand
///   ContextChoice.AGreenContextBeside...     it has queues of its own       reported
///
/// Facts about the driver that `Driver` cannot express and no test asserts:
///
/// - Mapping with an offset into a chunk: `map` shows whole chunks, as drivers require.
/// - Creation at HOST_NUMA_CURRENT: a `Place` names its node.
/// - Memory and grants of kind HOST: `host(n)` is node n, which is the same with one node.
/// - Export of a FABRIC handle: chunks are created with it, and other libraries export it.
/// - RANGE_START and RANGE_SIZE of a pointer: nobody needs them; `address_range` is the mapping's.
/// - Kernels need no cuCtxEnablePeerAccess: there is no such call, so every kernel on a peer's
///   memory shows this.
/// - Fresh memory is zero: undocumented; simulated machines fill it with junk.
/// - The first launch of a lazily loaded kernel: `load_kernel` loads it at once.
template <typename Machine>
class ContractTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* chosen = std::getenv("VMART_CONTRACT");
    if (chosen != nullptr && std::string_view(chosen) != Machine::name) {
      GTEST_SKIP() << "SKIPPED: VMART_CONTRACT=" << chosen;
    }
    const std::string why = Machine::unavailable();
    if (!why.empty()) GTEST_SKIP() << "SKIPPED: " << why;
    rig_.emplace(Machine::open());
    static const bool announced = [&] {
      std::printf("contract on %s\n", rig_->driver().description().c_str());
      return std::fflush(stdout) == 0;
    }();
    (void)announced;
  }

  ContractRig& rig() { return *rig_; }
  Driver& driver() { return rig_->driver(); }

  /// A real driver keeps a sticky error until the process ends; a simulated one, until its machine
  /// is destroyed.
  static bool needs_child() { return std::is_same_v<Machine, CudaMachine> && !inside_child(); }

  /// Prints an answer that no document gives and that no test asserts.
  static void report(const std::string& question, const std::string& answer) {
    std::printf("open point: %s: %s\n", question.c_str(), answer.c_str());
  }

 private:
  std::optional<ContractRig> rig_;
};

using ContractMachines = testing::Types<SimulatedMachine, CudaMachine>;

/// "Mapping/Sim.AMapOverAMappingIsRefused".
struct MachineNames {
  template <typename Machine>
  static std::string GetName(int) {
    return Machine::name;
  }
};

}  // namespace vma

/// Ends the test, shown as skipped, on a machine with fewer GPUs.
#define VMART_NEEDS_GPUS(count)                                                          \
  if (this->rig().gpus() < (count)) {                                                    \
    GTEST_SKIP() << "SKIPPED: needs " << (count) << " GPUs, has " << this->rig().gpus(); \
  }

/// Runs the test in a child: on a real driver it is fatal to the process or may block it.
#define VMART_IN_CHILD(limit_seconds)                               \
  if (this->needs_child()) {                                        \
    run_current_test_in_child(std::chrono::seconds(limit_seconds)); \
    return;                                                         \
  }
