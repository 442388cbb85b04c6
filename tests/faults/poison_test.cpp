// Goal: if a slot can show neither target nor source, the allocation is poisoned: `read` serves its
// bytes, every other call reports it, and the memory returns when it is freed (I4).

#include "faults/broken_drivers.hpp"
#include "faults/sweep.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace vma {
namespace {

/// Counts lives in which calls of one kind fail so often in a row that retries do not help.
int poisoned_lives(Call refused, int times) {
  int poisoned = 0;
  for (int first = 0;; ++first) {
    LifePlan plan;
    plan.seed = run_seed();
    std::shared_ptr<bool> met = std::make_shared<bool>(false);
    StubbornDriver* driver = nullptr;
    plan.wrap = [&](SimDriver& machine) {
      auto made = std::make_unique<StubbornDriver>(machine, refused, first, times);
      driver = made.get();
      return made;
    };
    plan.arm = [&](bool armed) {
      if (driver != nullptr) driver->set_armed(armed);
    };
    plan.disturbed = [&] { return *met = driver->refused(); };
    const LifeOutcome outcome = expect_whole(
        plan, fmt::format("{} refused {} times from number {}", to_string(refused), times, first));
    poisoned += outcome.poisoned ? 1 : 0;
    if (!*met) return poisoned;
  }
}

TEST(Poison, StubbornMapsSaveTheBytes) {
  EXPECT_GT(poisoned_lives(Call::map, 5), 3);
}

TEST(Poison, StubbornGrantsSaveTheBytes) {
  EXPECT_GT(poisoned_lives(Call::grant, 6), 3);
}

TEST(Poison, StubbornUnmapsLoseNothing) {
  poisoned_lives(Call::unmap, 3);
}

TEST(Poison, StubbornReleasesAreCounted) {
  EXPECT_EQ(poisoned_lives(Call::release, 10), 0);
}

TEST(Poison, StubbornWaitsLoseNothing) {
  EXPECT_EQ(poisoned_lives(Call::wait_event, 3), 0);
}

TEST(Poison, StubbornStreamWaitsLoseNothing) {
  EXPECT_EQ(poisoned_lives(Call::wait_stream, 2), 0);
}

}  // namespace
}  // namespace vma
