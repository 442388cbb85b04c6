// Goal: metrics are right for a hand-written report and for replays that can be computed by hand.

#include "lab/replay/replay_metrics.hpp"

#include "unit/lab/replay/replay_rig.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <string>
#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A report of 10 s on the two GPUs of `ReplayRig`, in which both GPUs are used.
ReplayReport written_report() {
  ReplayReport report;
  report.begin = seconds(5);
  report.end = seconds(15);
  report.accesses = 30;
  report.bytes = 1000;
  report.access_s = 12;
  report.local_s = 5;
  report.paused_s = 1.25;
  report.wait_s = 3;
  report.move_s = 1.5;
  report.move_stall_s = 0.5;
  report.stall = milliseconds(250);
  report.skew = milliseconds(500);
  report.moves = 4;
  report.bytes_moved = 400;
  report.thrashes = 2;
  report.accesses_lost = 6;
  report.allocations_lost = 7;
  report.chunks_spilled = 8;
  report.policy_failures = 9;
  report.places = {"gpu(0)", "gpu(1)", "host(0)"};
  report.devices = {{20, 500, seconds(4), milliseconds(750), 4, {300, 100, 100}},
                    {10, 500, seconds(8), seconds(1), 1, {50, 200, 250}}};
  report.tenants["a"] = {10, 500, 2, 2};
  report.tenants["b"] = {20, 500, 10, 2.5};
  report.tenants["none"] = {};
  report.window = seconds(1);
  for (const char* end : {"hbm", "to peers", "from peers", "to host", "from host"})
    for (const char* gpu : {"gpu(0) ", "gpu(1) "}) report.bytes_by_link[std::string(gpu) + end] = 0;
  report.bytes_by_link["gpu(0) hbm"] = 10'000;       // Of 4000 per second.
  report.bytes_by_link["gpu(1) from peers"] = 3000;  // Of 400 per second.
  return report;
}

TEST(ReplayMetrics, AreWhatTheReportSaysInOneFigureEach) {
  ReplayRig rig;
  const ReplayMetrics metrics = metrics_of(written_report(), rig.machine());
  EXPECT_EQ(metrics.seconds, 10);
  EXPECT_EQ(metrics.accesses, 30u);
  EXPECT_EQ(metrics.bytes, 1000);
  EXPECT_EQ(metrics.excess_s, 7);
  EXPECT_EQ(metrics.slowdown, 12.0 / 5);
  EXPECT_EQ(metrics.wait_s, 3);
  EXPECT_EQ(metrics.access_move_s, 13.5);
  EXPECT_EQ(metrics.paused_s, 1.25);
  EXPECT_EQ(metrics.cost_s, 16.5);  // 12 - 1.25 + 3 + 1.75 + (1.5 - 0.5).
  EXPECT_EQ(metrics.floor_s, 5);
  EXPECT_EQ(metrics.excess_ratio, 11.5 / 5);
  EXPECT_EQ(metrics.stopped_s, 1.75);
  EXPECT_EQ(metrics.move_s, 1.5);
  EXPECT_EQ(metrics.stall_s, 0.25);
  EXPECT_EQ(metrics.skew_s, 0.5);
  EXPECT_EQ(metrics.moves, 4u);
  EXPECT_EQ(metrics.bytes_moved, 400u);
  EXPECT_EQ(metrics.thrashes, 2u);
  EXPECT_EQ(metrics.accesses_lost, 6u);
  EXPECT_EQ(metrics.allocations_lost, 7u);
  EXPECT_EQ(metrics.chunks_spilled, 8u);
  EXPECT_EQ(metrics.policy_failures, 9u);
}

TEST(ReplayMetrics, SharesAreOfBytesByWhoAccessesThem) {
  ReplayRig rig;
  const ReplayMetrics metrics = metrics_of(written_report(), rig.machine());
  EXPECT_EQ(metrics.own_share, (300 + 200) / 1000.0);
  EXPECT_EQ(metrics.peer_share, (100 + 50) / 1000.0);
  EXPECT_EQ(metrics.host_share, (100 + 250) / 1000.0);
}

TEST(ReplayMetrics, SayHowMuchOneDeviceDoes) {
  ReplayRig rig;
  ReplayReport report = written_report();
  EXPECT_EQ(metrics_of(report, rig.machine()).device_share_max, 0.5);
  EXPECT_EQ(metrics_of(report, rig.machine()).device_accesses_max, 20.0 / 30);
  report.devices[1].bytes = 700;
  report.devices[0].bytes = 300;
  EXPECT_EQ(metrics_of(report, rig.machine()).device_share_max, 0.7);
}

/// More than half of the accesses, and more than 1.5 times an equal share.
TEST(ReplayMetrics, ADeviceIsCrowdedByMostOfTheAccesses) {
  const auto crowded = [](const std::vector<std::uint64_t>& accesses) {
    ReplayReport report;
    for (const std::uint64_t each : accesses) {
      report.devices.push_back({.accesses = each, .bytes_by_place = {}});
      report.accesses += each;
    }
    return crowded_device(report);
  };
  EXPECT_FALSE(crowded({100}));
  EXPECT_FALSE(crowded({0, 0}));
  EXPECT_FALSE(crowded({25, 75}));
  EXPECT_FALSE(crowded({10, 50, 40}));
  ASSERT_TRUE(crowded({24, 76}));
  EXPECT_EQ(crowded({24, 76})->device, 1u);
  EXPECT_EQ(crowded({24, 76})->share, 0.76);
  EXPECT_TRUE(crowded({10, 51, 39}));
}

TEST(ReplayMetrics, FairnessIsJainsIndexOfTheSlowdown) {
  ReplayRig rig;
  const ReplayMetrics metrics = metrics_of(written_report(), rig.machine());
  EXPECT_DOUBLE_EQ(metrics.fairness_tenants.value(), 25.0 / (2 * 17));  // For slowdowns of 1 and 4.
  EXPECT_DOUBLE_EQ(metrics.fairness_devices.value(), 81.0 / (2 * 65));  // For 1 and 8.
  EXPECT_EQ(jain_index(std::array{3.0, 3.0, 3.0}), 1);
  EXPECT_DOUBLE_EQ(jain_index(std::array{0.0, 0.0, 2.0, 0.0}).value(), 0.25);
  EXPECT_EQ(jain_index(std::array{0.0}), std::nullopt);
}

TEST(ReplayMetrics, ALinksUseIsOfWhatItCouldCarry) {
  ReplayRig rig;
  const ReplayMetrics metrics = metrics_of(written_report(), rig.machine());
  EXPECT_EQ(metrics.links.size(), 10u);
  EXPECT_DOUBLE_EQ(metrics.links.at("gpu(0) hbm"), 0.25);
  EXPECT_DOUBLE_EQ(metrics.links.at("gpu(1) from peers"), 0.75);
  EXPECT_EQ(metrics.links.at("gpu(1) hbm"), 0);
  EXPECT_DOUBLE_EQ(metrics.link_use_max, 0.75);
}

TEST(ReplayMetrics, SettlingIsTheMeanOfTheMarksThatSettled) {
  ReplayRig rig;
  ReplayReport report = written_report();
  EXPECT_EQ(metrics_of(report, rig.machine()).rest_s, std::nullopt);
  const auto phase = [&](const std::vector<double>& slowdowns) {
    report.marks.emplace_back(report.begin + seconds(report.windows.size()), "phase");
    for (const double slowdown : slowdowns) report.windows.push_back({0, slowdown, 1, 0, {}});
  };
  phase({3, 3, 3, 1, 1, 1, 1, 1});
  phase({3, 1, 1});  // Too short.
  phase({3, 2, 2, 2, 2, 2, 2, 2});
  const ReplayMetrics metrics = metrics_of(report, rig.machine());
  EXPECT_EQ(metrics.marks, 3u);
  EXPECT_EQ(metrics.marks_at_rest, 2u);
  EXPECT_EQ(metrics.rest_s, (3 + 1) / 2.0);
}

TEST(ReplayMetrics, WhereNothingHappenedNothingIsSaid) {
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(Time(0), 1, 100);
  const ReplayMetrics metrics = metrics_of(rig.run(trace), rig.machine());
  EXPECT_EQ(metrics.slowdown, std::nullopt);
  EXPECT_EQ(metrics.own_share, std::nullopt);
  EXPECT_EQ(metrics.device_share_max, std::nullopt);
  EXPECT_EQ(metrics.device_accesses_max, std::nullopt);
  EXPECT_EQ(metrics.excess_ratio, std::nullopt);
  EXPECT_EQ(metrics.fairness_tenants, std::nullopt);
  EXPECT_EQ(metrics.fairness_devices, std::nullopt);
  EXPECT_EQ(metrics.rest_s, std::nullopt);
  EXPECT_EQ(metrics.link_use_max, 0);
  EXPECT_TRUE(to_json(metrics).at("slowdown").is_null());
  EXPECT_TRUE(to_json(metrics).at("rest_s").is_null());
}

TEST(ReplayMetrics, JsonHasEachOfThem) {
  ReplayRig rig;
  const boost::json::object json = to_json(metrics_of(written_report(), rig.machine()));
  EXPECT_EQ(json.size(), 49u);
  EXPECT_EQ(json.at("slowdown"), 12.0 / 5);
  EXPECT_EQ(json.at("bytes_moved"), 400);
  EXPECT_EQ(json.at("links").at("gpu(0) hbm"), 0.25);
}

/// Moves after the end of the last access delayed nothing, and may take longer than everything
/// else.
TEST(ReplayMetrics, LinksAreMeasuredUntilTheLastAccessEnds) {
  ReplayRig rig;
  ListedTrace trace;
  const TracePlace at{gpu(0)};
  trace.alloc(Time(0), 1, 100, at).access(Time(0), 1, 100, at).free(seconds(60), 1);
  const auto to_host = [](const Snapshot& snapshot, Plan& plan) {
    if (snapshot.now() == seconds(10)) plan.move(ChunkId{0}, host_0, 1, "told to");
  };
  const ReplayReport report = rig.run(trace, std::make_unique<ToldPolicy>(to_host));
  EXPECT_EQ(report.bytes_moved, 100u);
  EXPECT_EQ(report.bytes_by_link.at("gpu(0) hbm"), 100);
  EXPECT_EQ(report.bytes_by_link.at("gpu(0) to host"), 0);
  EXPECT_NEAR(metrics_of(report, rig.machine()).link_use_max, 1, 1e-6);
}

/// Each GPU has two accesses in progress, spread over 3 s, when a move stops both for 1 s. Five
/// kernels arrive meanwhile. All are late, and the cost has the stall twice: once for each device.
TEST(ReplayMetrics, CostHasTimeAtGatesOnceForEachDeviceThatStands) {
  ReplayRig rig;
  rig.gpus.costs.stall_fixed(gpu_1, gpu_0) = rig.gpus.costs.move_fixed(gpu_1, gpu_0) = seconds(1);
  rig.options.scheduler.planner.stall_share = 0;
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_0).alloc(start, 2, 100, on_1).alloc(start, 3, 100, on_1);
  for (int i = 0; i < 2; ++i) {
    trace.access(start, 1, 100, on_0);
    trace.last().duration = seconds(3);
    trace.access(start, 2, 100, on_1);
    trace.last().duration = seconds(3);
  }
  const auto to_peer = [](const Snapshot& snapshot, Plan& plan) {
    if (snapshot.now() == milliseconds(10)) plan.move(ChunkId{2}, gpu_0, 1, "told to");
  };
  for (int i = 0; i < 5; ++i) trace.access(milliseconds(500), 1, 100, on_0);
  const ReplayReport report = rig.run(trace, std::make_unique<ToldPolicy>(to_peer));
  const ReplayMetrics metrics = metrics_of(report, rig.machine());
  ASSERT_EQ(report.moves, 1u);
  // The copy takes 0.25 s: the gate is shut from 0.26 s to 1.26 s, for both devices. Then each
  // kernel takes 25 ms of HBM and what the two spread accesses take of it, and waits for those
  // before it.
  const double kernel = 100 / (4000 - 2 * 100 / 3.0);
  EXPECT_NEAR(metrics.stopped_s, 2, 1e-6);
  EXPECT_NEAR(metrics.wait_s, (1 + 2 + 3 + 4) * kernel, 1e-6);
  EXPECT_NEAR(metrics.paused_s, 4, 1e-6);
  EXPECT_NEAR(metrics.access_s, 4 * 4 + 5 * kernel, 1e-6);
  EXPECT_NEAR(metrics.access_move_s, metrics.access_s + 1.25,
              1e-6);  // The move alone: stall, copy.
  EXPECT_NEAR(metrics.cost_s, 4 * 3 + 5 * kernel + 10 * kernel + 2 + 0.25, 1e-6);
  EXPECT_NEAR(metrics.floor_s, 4 * 3 + 5 * 0.025, 1e-6);
}

}  // namespace
}  // namespace vma
