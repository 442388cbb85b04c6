// Goal: live moves measure what they take and how long streams are stopped for them, and leave
// nothing behind. Method: simulated machines with threads; times are those of this computer, so
// only relations that hold for any times are checked.
#include "measuring/live_stops.hpp"

#include "base/units.hpp"
#include "support/drivers/intercept_driver.hpp"
#include "machine/machine_file.hpp"
#include "runtime/runtime_parts.hpp"
#include "support/sanitizer.hpp"
#include "unit/runtime/runtime_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

namespace vma {
namespace {

constexpr LiveStops::Sizes sizes{64 * KiB, 512 * KiB, 64 * KiB, MiB};

/// Gates are measured.
RuntimeOptions patient_at_gates() {
  RuntimeOptions options = without_suspension(patient());
  options.stall_budget = std::chrono::seconds(1);
  return options;
}

/// Grants are slow after a pause: each takes a quarter of the time since the previous one, up to
/// `slow_max`.
class RestingDriver final : public InterceptDriver {
 public:
  static constexpr Time slow_max = std::chrono::milliseconds(10);
  using InterceptDriver::InterceptDriver;

 private:
  void around(Call call, const std::function<void()>& body) override {
    if (call == Call::grant) {
      const Time now = clock().now(), rest = now - Time(last_.exchange(now.count()));
      poll_until(clock(), now + std::min(rest / 4, slow_max), [] { return false; });
    }
    body();
    if (call == Call::grant) last_ = clock().now().count();
  }

  std::atomic<Time::rep> last_{0};
};

PlaceId stop_place(std::size_t place) {
  return PlaceId{static_cast<std::uint8_t>(place)};
}

/// Placeholder costs, so that measured cells differ from them.
Calibration blank(Runtime& runtime) {
  Calibration calibration;
  calibration.places = runtime.places();
  const auto gpus = std::ranges::count(calibration.places, Place::Kind::gpu, &Place::kind);
  calibration.costs = MachineCosts(static_cast<std::size_t>(gpus), calibration.places.size());
  for (std::size_t from = 0; from < calibration.places.size(); ++from) {
    for (std::size_t to = 0; to < calibration.places.size(); ++to)
      calibration.costs.copy_rate(stop_place(from), stop_place(to)) = 1e15;
  }
  return calibration;
}

/// Again if this computer was so busy meanwhile that late streams were no later than others.
Calibration measured(Runtime& runtime) {
  constexpr int tries = 10;
  Calibration calibration;
  for (int i = 0; i < tries; ++i) {
    calibration = blank(runtime);
    LiveStops(runtime, sizes).measure(calibration);
    const auto late = [](const std::string& what) { return what.starts_with("late stops"); };
    if (std::ranges::none_of(calibration.estimates, late)) break;
  }
  return calibration;
}

TEST(LiveStops, MeasureEachRouteThatMovesTake) {
  RuntimeRig rig("test-2", patient_at_gates());
  const std::size_t before = rig.runtime().stats().allocations;
  const Calibration calibration = measured(rig.runtime());
  EXPECT_TRUE(calibration.estimates.empty()) << calibration.estimates.front();
  for (std::size_t from = 0; from < calibration.places.size(); ++from) {
    for (std::size_t to = 0; to < calibration.places.size(); ++to) {
      if (from == to) continue;
      SCOPED_TRACE(std::to_string(from) + " to " + std::to_string(to));
      const Time stall =
          calibration.costs.stall_time(stop_place(from), stop_place(to), sizes.large_bytes);
      EXPECT_GT(stall, Time::zero());
      EXPECT_GE(calibration.costs.move_time(stop_place(from), stop_place(to), sizes.large_bytes),
                Time::zero());
      EXPECT_LT(stall, std::chrono::seconds(10));
    }
  }
  const RuntimeStats after = rig.runtime().stats();
  EXPECT_EQ(after.allocations, before);
  EXPECT_GT(after.gates, 0u) << "the moves came to gates";
  rig.check_invariants();
}

TEST(LiveStops, FindWhatStallsAreLongerByAfterARest) {
  if (under_thread_sanitizer) GTEST_SKIP() << "all that a stop waits for here is that sanitizer";
  RuntimeOptions options = patient_at_gates();
  options.driver = "sim:test-2";
  auto resting =
      std::make_unique<RestingDriver>(std::make_unique<SimDriver>(load_machine("test-2")));
  Runtime runtime =
      runtime_of(std::make_unique<RuntimeParts>(std::move(resting), resolve_settings(options)));
  const Calibration calibration = measured(runtime);
  EXPECT_TRUE(calibration.estimates.empty()) << calibration.estimates.front();
  EXPECT_GT(calibration.late.wait, std::chrono::milliseconds(1)) << "rounds are long";
  EXPECT_GT(calibration.late.longer, calibration.late.wait / 16) << "grants take a quarter of it";
  EXPECT_LT(calibration.late.longer, std::chrono::seconds(1));
}

TEST(LiveStops, NameRoutesWithoutRoomAndKeepTheirCosts) {
  RuntimeOptions options = patient_at_gates();
  options.capacity_bytes[host(0)] = 256 * KiB;  // The small chunk fits, the large one does not.
  RuntimeRig rig("test-2", options);
  Calibration calibration = blank(rig.runtime());
  LiveStops(rig.runtime(), sizes).measure(calibration);
  // On a busy computer there may be another: that late streams were not later than others.
  const auto without_room = [](const std::string& what) { return what.starts_with("live moves"); };
  EXPECT_EQ(std::ranges::count_if(calibration.estimates, without_room), 2);
  ASSERT_FALSE(calibration.estimates.empty());
  EXPECT_TRUE(calibration.estimates[0].starts_with("live moves gpu(0)->host(0)"));
  EXPECT_EQ(calibration.costs.stall_time(stop_place(0), stop_place(2), sizes.large_bytes),
            Time::zero());
  EXPECT_GT(calibration.costs.stall_time(stop_place(0), stop_place(1), sizes.large_bytes),
            Time::zero());
  rig.check_invariants();
}

}  // namespace
}  // namespace vma
