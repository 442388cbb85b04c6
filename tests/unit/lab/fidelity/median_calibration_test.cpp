// Goal: the median of several machines' calibrations is a valid calibration that one outlier does
// not change, and what differs is reported.

#include "lab/fidelity/median_calibration.hpp"

#include "costs/calibration_file.hpp"
#include "unit/lab/fidelity/recorded_header.hpp"
#include "unit/lab/replay/two_gpus.hpp"
#include "unit/lab/trace/trace_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace vma {
namespace {

Calibration calibration_of(const std::string& date) {
  const RecordingHeader header = recorded_header();
  Calibration calibration;
  calibration.machine = "a machine";
  calibration.date = date;
  calibration.places = {gpu(0), gpu(1), host(0)};
  calibration.costs = header.costs;
  calibration.gaps = header.gaps;
  calibration.late = {Time(10'000'000), Time(100'000)};
  calibration.peers.kinds = {{LinkKind::same, LinkKind::nvlink},
                             {LinkKind::nvlink, LinkKind::same}};
  calibration.peers.both_ways = {6e11, 6e11};
  calibration.costs.rank();
  return calibration;
}

const CalibrationSpread& spread_of(const MedianCalibration& median, const std::string& key) {
  return *std::ranges::find(median.spreads, key, &CalibrationSpread::key);
}

TEST(MedianCalibration, OfEqualOnesIsTheSame) {
  const Calibration one = calibration_of("2026-01-01T00:00:00Z");
  const MedianCalibration median = median_calibration(std::vector{one, one, one});
  Calibration expected = one;
  expected.machine = "median of 3: a machine";
  EXPECT_EQ(to_json(median.calibration), to_json(expected));
  for (const CalibrationSpread& each : median.spreads) EXPECT_EQ(each.share(), 0) << each.key;
}

TEST(MedianCalibration, ConsistsOfTheMiddleNumbersAndSaysWhatDiffers) {
  std::vector<Calibration> all;
  for (const char* date : {"2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z", "2026-01-01T00:00:00Z"})
    all.push_back(calibration_of(date));
  all[0].costs.stall_fixed(gpu_0, gpu_1) = std::chrono::microseconds(250);
  all[1].costs.stall_fixed(gpu_0, gpu_1) = std::chrono::microseconds(900);
  all[2].gaps.round[1] = Time(42'000);
  all[1].costs.access_rate(gpu_1, host_0) = 0;  // Unknown there.
  all[1].estimates = {"gpu(1) to host(0)"};
  all[2].late = {};
  all[2].peers.both_ways.clear();
  const MedianCalibration median = median_calibration(all);
  const Calibration& found = median.calibration;
  EXPECT_EQ(found.date, "2026-01-03T00:00:00Z");
  EXPECT_EQ(found.costs.stall_fixed(gpu_0, gpu_1), std::chrono::microseconds(250));
  EXPECT_EQ(found.costs.stall_fixed(gpu_1, gpu_0), std::chrono::microseconds(200));
  EXPECT_EQ(found.gaps.round[1], Time(21'000));
  EXPECT_EQ(found.costs.access_rate(gpu_1, host_0), 50e9);
  EXPECT_EQ(found.estimates, std::vector<std::string>{"gpu(1) to host(0)"});
  EXPECT_EQ(found.late.wait, Time(10'000'000));
  EXPECT_EQ(found.peers.both_ways, (std::vector<double>{6e11, 6e11}));
  const CalibrationSpread& stall = spread_of(median, "stall_fixed_ns");
  EXPECT_EQ(stall.where, "[0][1]");
  EXPECT_DOUBLE_EQ(stall.share(), (900.0 - 200.0) / 250.0);
  EXPECT_DOUBLE_EQ(spread_of(median, "round_gap_ns").share(), 1.0);
  EXPECT_EQ(spread_of(median, "copy_bytes_s").share(), 0);
}

TEST(MedianCalibration, OfOtherPlacesOrLinksIsRefused) {
  const Calibration one = calibration_of("2026-01-01T00:00:00Z");
  Calibration other = one;
  other.places[2] = host(1);
  const auto why = [&] { return error_of([&] { median_calibration(std::vector{one, other}); }); };
  EXPECT_NE(why().find("differ in places[2]"), std::string::npos);
  other = one;
  other.peers.kinds[0][1] = LinkKind::pcie;
  EXPECT_NE(why().find("differ in peer_links[0][1]"), std::string::npos);
  EXPECT_NE(error_of([] { median_calibration({}); }).find("no calibration"), std::string::npos);
}

}  // namespace
}  // namespace vma
