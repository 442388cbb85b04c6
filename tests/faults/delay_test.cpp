// Goal: if a driver call takes longer than a hold may, the request succeeds or ends in `busy`, and
// nothing is lost. Method: delays each driver call of a life in turn.

#include "support/drivers/delay_driver.hpp"
#include "faults/sweep.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace vma {
namespace {

TEST(Delays, AnyCallBeyondTheLimitEndsInSuccessOrBusy) {
  constexpr TimePoint delay = std::chrono::milliseconds(100);  // The limit is 20 ms.
  const int step = thinned(long_run() ? 1 : 2);
  int busy = 0;
  for (int number = sweep_start(step);; number += step) {
    LifePlan plan;
    plan.seed = run_seed() + static_cast<unsigned>(number);
    DelayDriver* driver = nullptr;
    bool delayed = false;
    int counted = 0, fired = 0;
    plan.arm = [&](bool armed) {
      if (driver == nullptr) return;
      if (armed) return driver->delay_call_number(number - counted, delay);
      counted += driver->counted();
      fired += driver->fired();
      driver->delay_call_number(-1, TimePoint{0});
    };
    plan.wrap = [&](SimDriver& machine) {
      auto made = std::make_unique<DelayDriver>(static_cast<Driver&>(machine));
      made->delay_call_number(number, delay);
      driver = made.get();
      return made;
    };
    plan.disturbed = [&] { return delayed = fired + driver->fired() > 0; };
    const LifeOutcome outcome = expect_whole(plan, fmt::format("call {} delayed", number));
    for (const std::string& error : outcome.errors) {
      EXPECT_NE(error.find("busy"), std::string::npos) << "call " << number << ": " << error;
      ++busy;
    }
    if (!delayed) break;
  }
  if (thinned(1) > 1) return;  // A sample may contain no such call.
  EXPECT_GT(busy, 0) << "a call that stands under a hold ends in busy";
}

}  // namespace
}  // namespace vma
