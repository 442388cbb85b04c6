// Goal: a calibration measures the machine's actual rates, disturbs no other work and leaves
// nothing behind. Method: simulated machines, whose files give the true rates; times are virtual.
#include <vma/calibration.hpp>

#include "base/units.hpp"
#include "costs/cost_estimates.hpp"
#include "costs/move_costs.hpp"
#include "support/drivers/fault_driver.hpp"
#include "machine/cost_model.hpp"
#include "machine/machine_file.hpp"
#include "scheduling/prediction_log.hpp"
#include "support/sanitizer.hpp"
#include "unit/memory/memory_rig.hpp"
#include "unit/runtime/runtime_rig.hpp"
#include "unit/runtime/service_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t calibration_bytes = 32 * MiB;

Calibration measure(Runtime& runtime, std::uint64_t bytes = calibration_bytes) {
  CalibrateOptions options;
  options.store = false;
  options.bytes_per_place = bytes;
  return runtime.calibrate(options);
}

PlaceId nth_place(std::size_t place) {
  return PlaceId{static_cast<std::uint8_t>(place)};
}

bool names(const std::vector<std::string>& texts, const std::string& text) {
  return std::ranges::any_of(
      texts, [&](const std::string& it) { return it.find(text) != std::string::npos; });
}

struct CalibrationTest : testing::TestWithParam<const char*> {
  RuntimeRig rig{GetParam()};
  const Topology& topology = parts_of(rig.runtime()).machinery->topology;
};

void expect_near(double measured, double wanted, const std::string& what) {
  EXPECT_NEAR(measured / wanted, 1, 0.05) << what << ": " << measured << ", not " << wanted;
}

/// Calibrations of one machine. Whatever a busy computer lets other threads do in between also
/// takes simulated time, so a single calibration may be off; the nearest of a few is not.
class Calibrations {
 public:
  explicit Calibrations(Runtime& runtime) : runtime_(runtime) {}

  double nearest_rate(double wanted, const std::function<double(const MachineCosts&)>& rate_of) {
    double nearest = 0;
    for (std::size_t nth = 0; nth < most && std::abs(nearest / wanted - 1) > 0.05; ++nth) {
      const double rate = rate_of(get(nth).costs);
      if (std::abs(rate - wanted) < std::abs(nearest - wanted)) nearest = rate;
    }
    return nearest;
  }
  /// What the calibration with the fewest estimates could not measure.
  std::vector<std::string> estimates() {
    std::vector<std::string> fewest = get(0).estimates;
    for (std::size_t nth = 1; nth < most && fewest.size() > 1; ++nth) {
      if (get(nth).estimates.size() < fewest.size()) fewest = get(nth).estimates;
    }
    return fewest;
  }
  const Calibration& get(std::size_t nth) {
    while (made_.size() <= nth) made_.push_back(measure(runtime_));
    return made_[nth];
  }

 private:
  static constexpr std::size_t most = 4;
  Runtime& runtime_;
  std::vector<Calibration> made_;
};

TEST_P(CalibrationTest, FindsTheRatesOfTheMachineFile) {
  const CostModel model(load_machine(GetParam()));
  Calibrations calibrations(rig.runtime());
  const std::vector<Place> places = rig.runtime().places();
  ASSERT_EQ(calibrations.get(0).places, places);
  EXPECT_EQ(calibrations.estimates(),
            std::vector<std::string>{"latencies: the simulator has none"});
  for (std::size_t from = 0; from < places.size(); ++from) {
    for (std::size_t to = 0; to < places.size(); ++to) {
      const Place source = places[from], target = places[to];
      const PlaceId source_id = nth_place(from), target_id = nth_place(to);
      const std::string pair = to_string(source) + "->" + to_string(target);
      const bool is_gpu = source.kind == Place::Kind::gpu;
      const bool reaches = is_gpu && topology.reaches(DeviceId{source.ordinal}, target);
      const auto expect_rate = [&](double wanted, const std::string& what, const auto& rate_of) {
        expect_near(calibrations.nearest_rate(wanted, rate_of), wanted, what + " " + pair);
      };
      if (reaches) {
        const double twice = source == target ? 2 : 1;
        expect_rate(twice * model.bandwidth(target, source) * 1e9, "reads",
                    [&](const auto& costs) { return costs.access_rate(source_id, target_id); });
      } else if (is_gpu) {
        EXPECT_FALSE(calibrations.get(0).costs.reaches(source_id, target_id)) << pair;
      }
      if (reaches || (!is_gpu && target.kind == Place::Kind::gpu)) {
        expect_rate(model.bandwidth(source, target) * 1e9, "copies",
                    [&](const auto& costs) { return costs.copy_rate(source_id, target_id); });
      }
    }
  }
}

TEST_P(CalibrationTest, FindsWhatARingOfGpusReads) {
  const Calibration calibration = measure(rig.runtime());
  EXPECT_EQ(calibration.peers.kinds, topology.link_kinds());
  const MachineDescription machine = load_machine(GetParam());
  const std::size_t gpus = machine.gpus.size();
  bool ring = true;
  for (std::size_t at = 0; at < gpus; ++at)
    ring = ring && machine.peer_links[at][(at + 1) % gpus].kind == LinkKind::nvlink;
  ASSERT_EQ(calibration.peers.both_ways.size(), ring ? gpus : 0);
  // In the simulation the two directions do not slow each other down.
  for (const double both : calibration.peers.both_ways)
    expect_near(both, 2 * machine.peer_links[0][1].gb_s * 1e9, "both ways");
}

TEST_P(CalibrationTest, ForetellsWhatAMoveTakes) {
  const Calibration calibration = measure(rig.runtime());
  // Not one of the measured sizes.
  const std::uint64_t bytes = topology.granularity() < MiB ? 192 * KiB : 6 * MiB;
  MigrateOptions options;
  options.nothing_runs = true;
  for (std::size_t from = 0; from < calibration.places.size(); ++from) {
    for (std::size_t to = 0; to < calibration.places.size(); ++to) {
      if (from == to) continue;
      const Place source = calibration.places[from], target = calibration.places[to];
      SCOPED_TRACE(to_string(source) + "->" + to_string(target));
      void* pointer = rig.alloc(bytes, source, bytes);
      rig.runtime().migrate(pointer, target, options);  // Warms up both ends.
      rig.runtime().migrate(pointer, source, options);
      // Background refills also take simulated time, which counts for the measured move; so take
      // the best of several.
      MigrationReport best = rig.runtime().migrate(pointer, target, options);
      for (int again = 0; again < 3; ++again) {
        rig.runtime().migrate(pointer, source, options);
        const MigrationReport report = rig.runtime().migrate(pointer, target, options);
        if (move_time(report) < move_time(best)) best = report;
      }
      // Extracts from reports the same quantities that the calibration measured.
      PredictionLog log;
      log.add_move(calibration.costs, nth_place(from), nth_place(to), best);
      ASSERT_EQ(log.total(Foretold::move).count, 1u);
      EXPECT_NEAR(log.total(Foretold::move).bias, 0, 0.1);
      EXPECT_LE(move_time(best), best.wall);
      rig.runtime().free(pointer);
    }
  }
}

TEST_P(CalibrationTest, GivesItsMemoryBackAndMovesNobodyElse) {
  std::uint64_t* words = rig.alloc(64 * KiB, gpu(0));
  rig.write(words, 64, 7);
  const std::size_t before = rig.runtime().stats().allocations;
  measure(rig.runtime());
  rig.check_invariants();  // Waits for asynchronous frees.
  EXPECT_EQ(rig.runtime().stats().allocations, before);
  EXPECT_EQ(rig.runtime().stats().leaked, 0u);
  EXPECT_EQ(rig.place(words), gpu(0));
  EXPECT_EQ(rig.wrong(words, 64, 7), 0u);
}

std::vector<const char*> machines() {
  if (under_sanitizer) return {"h200x2", "gh200x2", "test-islands"};
  return {"h200x2", "h200x4", "gh200x2", "pcie4x4", "test-islands"};
}

INSTANTIATE_TEST_SUITE_P(Machines, CalibrationTest, testing::ValuesIn(machines()),
                         [](const auto& machine) {
                           std::string name = machine.param;
                           std::erase(name, '-');
                           return name;
                         });

std::vector<Place> by_speed(const Calibration& calibration, std::size_t device) {
  std::vector<Place> order;
  for (const PlaceId place : calibration.costs.by_speed(nth_place(device))) {
    order.push_back(calibration.places[index(place)]);
  }
  return order;
}

TEST(CalibratedTiers, APeerIsBeforeTheHostOnH200s) {
  RuntimeRig rig("h200x4");
  const Calibration calibration = measure(rig.runtime());
  EXPECT_EQ(by_speed(calibration, 1),
            (std::vector<Place>{gpu(1), gpu(0), gpu(2), gpu(3), host(0)}));
}

TEST(CalibratedTiers, ItsOwnHostIsBeforeAPeerOnGraceHopper) {
  RuntimeRig rig("gh200x2");
  const Calibration calibration = measure(rig.runtime());
  EXPECT_EQ(by_speed(calibration, 0), (std::vector<Place>{gpu(0), host(0), gpu(1), host(1)}));
  EXPECT_EQ(by_speed(calibration, 1), (std::vector<Place>{gpu(1), host(1), gpu(0), host(0)}));
}

TEST(CalibratedTiers, WhatAGpuCannotReachIsNoTierOfIts) {
  RuntimeRig rig("test-islands");
  const Calibration calibration = measure(rig.runtime());
  EXPECT_EQ(by_speed(calibration, 2), (std::vector<Place>{gpu(2), gpu(3), host(0)}));
  // Copies still work: they go through the host, at most at the speed of its links.
  const double around = calibration.costs.copy_rate(nth_place(0), nth_place(2));
  EXPECT_GT(around, 0.4 * 5e9);
  EXPECT_LE(around, 1.05 * 5e9);
}

/// A machine whose link to the GPU is three times as fast as its link from the GPU.
TEST(Calibration, TellsTheTwoDirectionsOfALinkApart) {
  MachineDescription machine = load_machine("test-2");
  machine.host_links.at(0).at(0) = {9, 3};
  machine.peer_links.at(0).at(1).gb_s = 8;
  machine.peer_links.at(1).at(0).gb_s = 16;
  Runtime runtime = runtime_of(
      std::make_unique<RuntimeParts>(std::make_unique<SimDriver>(machine), resolve_settings({})));
  const MachineCosts costs = measure(runtime).costs;
  expect_near(costs.copy_rate(nth_place(2), nth_place(0)), 9e9, "to the GPU");
  expect_near(costs.copy_rate(nth_place(0), nth_place(2)), 3e9, "from the GPU");
  expect_near(costs.access_rate(nth_place(0), nth_place(2)), 9e9, "reads of the host");
  expect_near(costs.copy_rate(nth_place(0), nth_place(1)), 8e9, "to the peer");
  expect_near(costs.access_rate(nth_place(0), nth_place(1)), 16e9, "reads of the peer");
  expect_near(costs.access_rate(nth_place(1), nth_place(0)), 8e9, "reads by the peer");
}

TEST(Calibration, NamesARouteThatFailsAndMeasuresTheOthers) {
  SimDriver machine(load_machine("h200x2"));
  auto faulty = std::make_unique<FaultDriver>(machine);
  FaultDriver& faults = *faulty;
  Runtime runtime =
      runtime_of(std::make_unique<RuntimeParts>(std::move(faulty), resolve_settings({})));
  const MachineCosts whole = measure(runtime).costs;
  faults.count_only({Call::copy});
  faults.fail_calls({0});  // The first copy: gpu(0) to itself.
  const Calibration calibration = measure(runtime);
  EXPECT_TRUE(names(calibration.estimates, "copies gpu(0)->gpu(0)")) << calibration.estimates[0];
  EXPECT_FALSE(names(calibration.estimates, "copies gpu(0)->gpu(1)"));
  // The estimate's value.
  EXPECT_EQ(calibration.costs.copy_rate(nth_place(0), nth_place(0)), 2.1e12);
  expect_near(calibration.costs.copy_rate(nth_place(0), nth_place(1)),
              whole.copy_rate(nth_place(0), nth_place(1)), "others");
}

TEST(Calibration, LeavesWhatDoesNotFitAnEstimate) {
  RuntimeOptions options;
  options.capacity_bytes[gpu(1)] = 160 * MiB;
  RuntimeRig rig("h200x2", options);
  rig.alloc(150 * MiB, gpu(1), 2 * MiB);
  const Calibration calibration = measure(rig.runtime());
  EXPECT_TRUE(names(calibration.estimates, "all of gpu(1)"));
  EXPECT_TRUE(names(calibration.estimates, "copies gpu(0)->gpu(1)"));
  EXPECT_TRUE(names(calibration.estimates, "reads in a ring of all GPUs"));
  EXPECT_TRUE(calibration.peers.both_ways.empty());
  EXPECT_FALSE(names(calibration.estimates, "copies gpu(0)->host(0)"));
  EXPECT_DOUBLE_EQ(calibration.costs.copy_rate(nth_place(0), nth_place(1)),
                   397e9);  // The value in the machine file.
  rig.check_invariants();
}

TEST(Calibration, EndsWithItsTime) {
  RuntimeRig rig("h200x2");
  CalibrateOptions options;
  options.store = false;
  options.time_limit = std::chrono::milliseconds(10);
  const TimePoint before = rig.machine().clock().now();
  try {
    EXPECT_TRUE(names(rig.runtime().calibrate(options).estimates, "the time limit was reached"));
  } catch (const Error& error) {  // On a busy machine, nothing was measured within the limit.
    EXPECT_TRUE(says(error, "the time limit was reached") || says(error, "did not take longer"))
        << error.what();
  }
  // The current step runs to its end, and creating contexts takes time too.
  EXPECT_LT(rig.machine().clock().now() - before, std::chrono::milliseconds(1'500));
}

TEST(Calibration, TakesNoMoreThanAQuarterOfAPlaceAndRefusesTooLittle) {
  RuntimeRig rig("test-2");  // 64 MiB per place.
  EXPECT_EQ(measure(rig.runtime(), GiB).estimates.size(), 1u);
  expect_error(ErrorKind::invalid_argument, [&] { measure(rig.runtime(), 4096); });
  rig.alloc(63 * MiB + 512 * KiB, gpu(0), 256 * KiB);
  rig.alloc(63 * MiB + 512 * KiB, gpu(1), 256 * KiB);
  rig.alloc(63 * MiB + 512 * KiB, host(0), 256 * KiB);
  expect_error(ErrorKind::unsupported, [&] { measure(rig.runtime()); });
  rig.runtime().shutdown();
  expect_error(ErrorKind::driver_gone, [&] { measure(rig.runtime()); });
}

TEST(Calibration, LeavesNothingInTheMachine) {
  ServiceRig rig("test-4");  // Reports leaks when it ends.
  EXPECT_FALSE(measure(rig.runtime(), 4 * MiB).estimates.empty());
  rig.check_invariants();
}

}  // namespace
}  // namespace vma
