// Goal: whatever call of a live migration fails or takes too long, array and twin are equal,
// everything launched finishes, and leaks are counted. Method: stepped plays in which each call
// fails in turn, then two of them, or is delayed beyond any limit.

#include "support/drivers/delay_driver.hpp"
#include "support/drivers/fault_driver.hpp"
#include "support/test_run.hpp"
#include "twin/twin_play.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>

namespace vma {
namespace {

/// Two writers and three moves of an array, one after the other: the last one uses what the first
/// has made.
TwinPlan short_play(std::uint64_t seed) {
  TwinPlan plan;
  plan.seed = seed;
  plan.writers = 2;
  plan.waves = true;
  plan.moves = 3;
  plan.cancels = false;
  plan.hosts = seed % 2 == 0;
  plan.any_error = true;
  return plan;
}

/// The first seed from this one on whose play moves chunks live.
std::uint64_t live_seed_from(std::uint64_t seed) {
  const std::uint64_t end = seed + 1'000;
  for (; seed < end; ++seed) {
    if (play(short_play(seed)).chunks_live > 0) return seed;
  }
  ADD_FAILURE() << "nothing moves live";
  return seed;
}

struct FaultOutcome {
  int fired = 0;
  int counted = 0;
  std::set<Call> failed;
};

/// Plays with those calls failing, counted from the first move to the end of the last.
FaultOutcome play_failing(std::uint64_t seed, const std::set<int>& numbers) {
  TwinPlan plan = short_play(seed);
  FaultDriver* faults = nullptr;
  FaultOutcome outcome;
  plan.wrap = [&](Driver& machine) {
    auto made = std::make_unique<FaultDriver>(machine);
    faults = made.get();
    return made;
  };
  plan.arm = [&](bool armed) {
    if (armed) return faults->fail_calls(numbers);
    outcome = {faults->fired(), faults->counted(), faults->failed()};
    faults->fail_calls({});
  };
  const std::string problem = play(plan).problem;
  std::string calls;
  for (const int number : numbers) calls += fmt::format(" {}", number);
  for (const Call call : outcome.failed) calls += fmt::format(" {}", to_string(call));
  EXPECT_EQ(problem, "") << describe(plan) << ", failing" << calls;
  return outcome;
}

TEST(TwinFaults, AnyCallThatFailsLosesNothing) {
  const std::uint64_t seeds = long_run() ? 20 : 2;
  constexpr std::array wanted{Call::batch,  Call::stop,  Call::is_capturing, Call::make_chain,
                              Call::launch, Call::unmap, Call::map,          Call::grant};
  std::set<Call> failed;
  int plays = 0;
  std::uint64_t seed = live_seed_from(run_seed());
  const auto failed_once = [&failed](Call call) { return failed.contains(call); };
  // Few plays may have no call of some kind.
  for (std::uint64_t i = 0; i < seeds || (i < 10 && !std::ranges::all_of(wanted, failed_once));
       ++i, seed = live_seed_from(seed + 1)) {
    for (int number = 0; !HasFailure(); ++number) {
      const FaultOutcome outcome = play_failing(seed, {number});
      failed.insert(outcome.failed.begin(), outcome.failed.end());
      if (outcome.fired == 0) break;
      ++plays;
    }
  }
  fmt::print("{} plays, {} kinds of calls failed\nVMART_COUNT twin_faults={}\n", plays,
             failed.size(), plays);
  for (const Call call : wanted) {
    EXPECT_TRUE(failed.contains(call)) << to_string(call) << " never failed";
  }
}

TEST(TwinFaults, AnyTwoCallsThatFailLoseNothing) {
  const int pairs = long_run() ? 5'000 : 250;
  std::mt19937_64 random(run_seed());
  const std::uint64_t seed = live_seed_from(run_seed());
  const int calls = play_failing(seed, {}).counted;
  for (int i = 0; i < pairs && !HasFailure(); ++i) {
    const int first = static_cast<int>(below(random, static_cast<unsigned>(calls)));
    // In half of the cases close together, so that the second hits the repair of the first.
    const int distance = 1 + static_cast<int>(below(random, i % 2 == 0 ? 12 : 200));
    play_failing(seed, {first, first + distance});
  }
}

/// False if call number `number` never came.
bool play_delaying(std::uint64_t seed, int number) {
  constexpr TimePoint delay = std::chrono::milliseconds(2);  // The gate's limit is 100 us.
  TwinPlan plan = short_play(seed);
  DelayDriver* delays = nullptr;
  bool fired = false;
  plan.wrap = [&](Driver& machine) {
    auto made = std::make_unique<DelayDriver>(machine);
    delays = made.get();
    return made;
  };
  plan.arm = [&](bool armed) {
    if (armed) return delays->delay_call_number(number, delay);
    fired = delays->fired() > 0;
    delays->delay_call_number(-1, TimePoint{0});
  };
  const TwinOutcome outcome = play(plan);
  EXPECT_EQ(outcome.problem, "") << describe(plan) << ", call " << number << " delayed";
  for (const auto& [kind, count] : outcome.moves_failed) {
    EXPECT_TRUE(kind == "busy" || kind == "unsupported") << kind << ", call " << number;
  }
  return fired;
}

TEST(TwinFaults, AnyCallThatStandsTooLongLosesNothing) {
  const int step = long_run() ? 1 : 2;
  const std::uint64_t seed = live_seed_from(run_seed());
  for (int number = 0; play_delaying(seed, number) && !HasFailure();) number += step;
}

}  // namespace
}  // namespace vma
