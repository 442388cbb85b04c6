// Goal: the sweep finds what it is meant to find. Method: skips a call while the runtime believes
// it was made; the checks of a life must notice.

#include "faults/broken_drivers.hpp"
#include "faults/life.hpp"
#include "memory/chunk.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace vma {
namespace {

/// The number of lives in which one call of a kind was skipped, and of those in which that was
/// noticed.
struct Finds {
  int lives = 0;
  int found = 0;
};

Finds skip_each(Call skipped) {
  Finds finds;
  for (int number = 0;; ++number) {
    LifePlan plan;
    SkippingDriver* driver = nullptr;
    bool met = false;
    plan.wrap = [&](SimDriver& machine) {
      auto made = std::make_unique<SkippingDriver>(machine, skipped, number);
      driver = made.get();
      return made;
    };
    plan.arm = [&](bool armed) {
      if (driver != nullptr) driver->set_armed(armed);
    };
    plan.disturbed = [&] { return met = driver->skipped(); };
    const LifeOutcome outcome = Life::live(plan);
    if (!met) return finds;
    ++finds.lives;
    finds.found += outcome.problems.empty() ? 0 : 1;
  }
}

TEST(PlantedBug, AForgottenGrantIsSeen) {
  if (access_is_verified) GTEST_SKIP() << "SKIPPED: checked builds end the process at once";
  const Finds finds = skip_each(Call::grant);
  EXPECT_GT(finds.lives, 20);
  // Nobody misses the grants of keepers and probes.
  EXPECT_GT(finds.found * 2, finds.lives);
}

TEST(PlantedBug, AForgottenCopyIsSeen) {
  const Finds finds = skip_each(Call::copy);
  EXPECT_GT(finds.lives, 8);
  EXPECT_EQ(finds.found, finds.lives);
}

TEST(PlantedBug, AForgottenReleaseIsSeen) {
  const Finds finds = skip_each(Call::release);
  EXPECT_GT(finds.lives, 4);
  EXPECT_EQ(finds.found, finds.lives);
}

TEST(PlantedBug, AForgottenUnreserveIsSeen) {
  const Finds finds = skip_each(Call::unreserve);
  EXPECT_GT(finds.lives, 4);
  EXPECT_EQ(finds.found, finds.lives);
}

}  // namespace
}  // namespace vma
