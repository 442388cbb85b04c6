// Goal: if the driver goes away or the device is lost at any call of a life, every error is typed,
// nothing hangs and shutdown returns.

#include "driver/native_codes.hpp"
#include "faults/broken_drivers.hpp"
#include "faults/sweep.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace vma {
namespace {

void lose_at_every_call(int native, std::string_view expected, bool suspends = false) {
  const int step = thinned(long_run() ? 1 : suspends ? 6 : 2);
  for (int first = sweep_start(step);; first += step) {
    LifePlan plan;
    plan.seed = run_seed() + static_cast<unsigned>(first);
    plan.driver_lost = true;
    plan.suspends = suspends;
    LostDriver* driver = nullptr;
    bool lost = false;
    plan.wrap = [&](SimDriver& machine) {
      auto made = std::make_unique<LostDriver>(machine, first, native);
      driver = made.get();
      return made;
    };
    plan.disturbed = [&] { return lost = driver->lost(); };
    const LifeOutcome outcome = expect_whole(plan, fmt::format("lost at call {}", first));
    if (!lost) break;
    if (outcome.errors.empty()) continue;  // Lost at the very end, where no call reports it.
    EXPECT_NE(outcome.errors.front().find(expected), std::string::npos) << outcome.errors.front();
  }
}

TEST(LostDriver, GoneAtAnyCallEndsInTypedErrors) {
  lose_at_every_call(native_deinitialized, "CUDA_ERROR_DEINITIALIZED");
}

TEST(LostDriver, AStickyFaultAtAnyCallEndsInTypedErrors) {
  lose_at_every_call(native_illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS");
}

// Work that was suspended then stays so.
TEST(LostDriver, AGpuThatFallsOffTheBusBesideSuspensionsEndsInTypedErrors) {
  lose_at_every_call(native_unknown, "CUDA_ERROR_UNKNOWN", true);
}

TEST(LostDriver, AnUnknownFaultAtAnyCallEndsInTypedErrors) {
  lose_at_every_call(native_unknown, "CUDA_ERROR_UNKNOWN");
}

}  // namespace
}  // namespace vma
