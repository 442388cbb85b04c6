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

/// What each suite of the contract derives from: one claim about the driver a test, asserted on
/// every machine there is. VMART_CONTRACT=sim or =cuda takes one of them.
///
/// Where the simulator is stricter than a real driver is known to be, a test asserts its answer and
/// reports the driver's:
///
///   test                                     simulator                      real driver
///   Faults.ACopyToReadOnlyMemoryIsRefused    by the call, nothing sticky    reported
///   Copies.KeepersAreAllowedForHost...       the cost model's time          reported
///   Stops.ABatchIsNotInOrder...              nothing runs beside it         reported
///   StoppedStreams.AWaitOf...TheirContext... launches run at once           reported: may stand
///
/// Rows of the facts about the driver that `Driver` cannot express, and that no test asserts:
///
///   row                                      why not
///   mapping with an offset into a chunk      `map` shows whole chunks: the only ones a driver
///   takes creation at HOST_NUMA_CURRENT            a `Location` names its node memory and grants
///   of kind HOST           `host(n)` is node n, which is the same on one node creation with a fd
///   or FABRIC handle      chunks are not shared with other processes RANGE_START and RANGE_SIZE of
///   a pointer  nobody asks for them: `address_range` is the mapping's kernels need no
///   cuCtxEnablePeerAccess    there is no such call, so each kernel on a peer's
///                                            memory shows it
///   fresh memory is zero                     undocumented: simulated machines fill it with junk
///   a lazily loaded kernel's first launch    `load_kernel` loads it at once
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

  /// A real driver keeps a sticky error for as long as the process lives; a simulated one does so
  /// for as long as its machine does.
  static bool needs_child() { return std::is_same_v<Machine, CudaMachine> && !inside_child(); }

  /// Says what is not known from any document, and not asserted either.
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

/// Leaves the test, shown as skipped, on a machine with fewer GPUs.
#define VMART_NEEDS_GPUS(count)                                                          \
  if (this->rig().gpus() < (count)) {                                                    \
    GTEST_SKIP() << "SKIPPED: needs " << (count) << " GPUs, has " << this->rig().gpus(); \
  }

/// The rest of the test is fatal to a process on a real driver, or may stop it.
#define VMART_IN_CHILD(limit_seconds)                               \
  if (this->needs_child()) {                                        \
    run_current_test_in_child(std::chrono::seconds(limit_seconds)); \
    return;                                                         \
  }
