// Goal: a replay models the cost of launches, and the effect on gates of a program that waits for
// its GPU. Method: hand-computed cases. HBM serves 4000 bytes per second, a peer 400.

#include "base/units.hpp"
#include "unit/lab/replay/replay_rig.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <utility>
#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

LaunchGaps gaps_of(Time kernel, Time round) {
  return {std::vector<Time>(2, kernel), std::vector<Time>(2, round)};
}

TEST(ReplayRounds, KernelsThatFollowEachOtherHaveAGapBetweenThem) {
  ReplayRig rig;
  rig.gaps = gaps_of(milliseconds(10), milliseconds(50));
  ListedTrace trace;
  trace.alloc(start, 1, 400, on_0);
  for (int i = 0; i < 3; ++i) trace.access(start, 1, 400, on_0);
  trace.access(seconds(5), 1, 400, on_0);  // Long after the last end, so there is no gap.
  const ReplayReport report = rig.run(trace);
  EXPECT_NEAR(report.seconds(), 5.1, 1e-6);
  EXPECT_NEAR(report.wait_s, 0.11 + 0.22, 1e-6);
  EXPECT_NEAR(report.access_s, 0.4, 1e-6) << "a gap is nobody's access";
}

// Two launches at a time: the second pair comes long after the first has ended.
TEST(ReplayRounds, TheFirstLaunchAfterAWaitComesLater) {
  for (const bool rounds : {true, false}) {
    ReplayRig rig;
    rig.gaps = gaps_of(milliseconds(10), milliseconds(50));
    rig.options.pacing = Pacing::at_once;
    rig.options.rounds = rounds;
    ListedTrace trace;
    trace.alloc(start, 1, 400, on_0);
    for (const Time at : {start, Time(milliseconds(20)), Time(seconds(1)), Time(seconds(1))})
      trace.access(at, 1, 400, on_0);
    EXPECT_NEAR(rig.run(trace).seconds(), 0.4 + (rounds ? 0.07 : 0.03), 1e-6);
  }
}

// Batches of 0.2 s: the first two kernels are one batch; the third begins after a wait for them.
TEST(ReplayRounds, TheFirstLaunchOfABatchComesLater) {
  for (const bool batches : {true, false}) {
    ReplayRig rig;
    rig.gaps = gaps_of(milliseconds(10), milliseconds(50));
    if (batches) rig.options.ahead = milliseconds(200);
    ListedTrace trace;
    trace.alloc(start, 1, 400, on_0);
    for (int i = 0; i < 4; ++i) trace.access(start, 1, 400, on_0);
    EXPECT_NEAR(rig.run(trace).seconds(), 0.4 + (batches ? 0.07 : 0.03), 1e-6);
  }
}

// The copy runs until 0.26 s and takes a tenth of both HBMs. GPU 0 has launched four kernels and
// runs the third, which ends at 0.325 s; the fourth ends at 0.425 s. GPU 1 ends at 0.335 s.
ReplayReport run_to_a_gate(bool rounds, const LateStops& late = {}) {
  ReplayRig rig;
  rig.late = late;
  rig.gpus.costs.stall_fixed(gpu_1, gpu_0) = rig.gpus.costs.move_fixed(gpu_1, gpu_0) =
      milliseconds(100);
  rig.options.scheduler.planner.stall_share = 0;
  rig.options.rounds = rounds;
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_1).alloc(start, 2, 400, on_0).alloc(start, 3, 400, on_1);
  for (int i = 0; i < 4; ++i) trace.access(start, 2, 400, on_0);
  trace.access(start, 3, 400, on_1);
  trace.last().passes = 3.1F;
  trace.access(seconds(1), 2, 400, on_0);
  const auto to_0 = [](const Snapshot& snapshot, Plan& plan) {
    if (snapshot.now() == milliseconds(10)) plan.move(ChunkId{0}, gpu_0, 1, "told to");
  };
  return rig.run(trace, std::make_unique<ToldPolicy>(to_0));
}

TEST(ReplayRounds, AGateWaitsForWhatHasBeenLaunched) {
  for (const bool rounds : {true, false}) {
    const ReplayReport report = run_to_a_gate(rounds);
    EXPECT_EQ(report.moves, 1u);
    EXPECT_NEAR(in_seconds(report.skew), rounds ? 0.09 : 0.01, 1e-4);
    EXPECT_EQ(report.accesses, 6u);
  }
}

// The gate is requested at 0.26 s, and the last stream arrives at 0.425 s.
TEST(ReplayRounds, AStallIsLongerWhereTheLastCameLate) {
  const std::vector<std::pair<LateStops, double>> cases = {
      {{}, 0.1},
      {{milliseconds(330), milliseconds(80)}, 0.14},  // Half of it.
      {{milliseconds(165), milliseconds(80)}, 0.18},
      {{milliseconds(10), milliseconds(80)}, 0.18}};
  for (const auto& [late, stall_s] : cases) {
    const ReplayReport report = run_to_a_gate(true, late);
    EXPECT_NEAR(in_seconds(report.stall), stall_s, 1e-4);
    EXPECT_NEAR(in_seconds(report.skew), 0.09, 1e-4) << "it is no skew";
  }
}

// The same with batches: a batch of 0.25 s has begun its last kernel; one of 0.4 s has one more.
TEST(ReplayRounds, AGateWaitsForABatch) {
  for (const int batch_ms : {250, 400}) {
    ReplayRig rig;
    rig.gpus.costs.stall_fixed(gpu_1, gpu_0) = rig.gpus.costs.move_fixed(gpu_1, gpu_0) =
        milliseconds(100);
    rig.options.scheduler.planner.stall_share = 0;
    rig.options.ahead = milliseconds(batch_ms);
    ListedTrace trace;
    trace.alloc(start, 1, 100, on_1).alloc(start, 2, 400, on_0).alloc(start, 3, 400, on_1);
    for (int i = 0; i < 6; ++i) trace.access(start, 2, 400, on_0);
    trace.access(start, 3, 400, on_1);
    trace.last().passes = 3.1F;
    const auto to_0 = [](const Snapshot& snapshot, Plan& plan) {
      if (snapshot.now() == milliseconds(10)) plan.move(ChunkId{0}, gpu_0, 1, "told to");
    };
    const ReplayReport report = rig.run(trace, std::make_unique<ToldPolicy>(to_0));
    EXPECT_EQ(report.moves, 1u);
    EXPECT_NEAR(in_seconds(report.skew), batch_ms == 400 ? 0.09 : 0.01, 1e-4);
    EXPECT_EQ(report.accesses, 7u);
  }
}

TEST(ReplayRounds, TheBudgetSpacesStops) {
  for (const bool paced : {true, false}) {
    ReplayRig rig;
    rig.gpus.costs.stall_fixed(gpu_1, gpu_0) = rig.gpus.costs.move_fixed(gpu_1, gpu_0) =
        milliseconds(100);
    rig.gpus.costs.copy_rate(gpu_1, gpu_0) = 1e9;
    rig.options.scheduler.planner.stall_share = 0;
    if (paced) rig.options.stall_budget = milliseconds(50);
    ListedTrace trace;
    trace.alloc(start, 1, 200, on_1).alloc(start, 2, 100, on_0).access(start, 2, 100, on_0);
    trace.last().duration = seconds(5);
    const auto both = [](const Snapshot& snapshot, Plan& plan) {
      if (snapshot.now() != milliseconds(10)) return;
      plan.move(ChunkId{0}, gpu_0, 1, "told to");
      plan.move(ChunkId{1}, gpu_0, 1, "told to");
    };
    const ReplayReport report = rig.run(trace, std::make_unique<ToldPolicy>(both));
    EXPECT_EQ(report.moves, 2u);
    EXPECT_NEAR(report.seconds(), 5.2, 1e-6);
    std::vector<std::size_t> moved;
    for (std::size_t at = 0; at < report.windows.size(); ++at)
      if (report.windows[at].bytes_moved > 0) moved.push_back(at);
    // Both end 0.1 s after they begin: at 0.11 s, and at 0.21 s or, once half of the first stop is
    // a second ago, at 1.16 s.
    EXPECT_EQ(moved, (paced ? std::vector<std::size_t>{1, 11} : std::vector<std::size_t>{1, 2}));
  }
}

// Two stops of 31 ms use up a budget of 60 ms, and it is only the window of a second that has to
// pass.
TEST(ReplayRounds, AStopWaitsForTheWindowOfTheBudget) {
  ReplayRig rig;
  rig.gpus.costs.stall_fixed(gpu_1, gpu_0) = rig.gpus.costs.move_fixed(gpu_1, gpu_0) =
      milliseconds(31);
  rig.gpus.costs.copy_rate(gpu_1, gpu_0) = 1e9;
  rig.options.scheduler.planner.stall_share = 0;
  rig.options.stall_budget = milliseconds(60);
  ListedTrace trace;
  trace.alloc(start, 1, 300, on_1).alloc(start, 2, 100, on_0).access(start, 2, 100, on_0);
  trace.last().duration = seconds(5);
  const auto all = [](const Snapshot& snapshot, Plan& plan) {
    if (snapshot.now() != milliseconds(10)) return;
    for (const std::uint32_t chunk : {0u, 1u, 2u}) plan.move(ChunkId{chunk}, gpu_0, 1, "told to");
  };
  const ReplayReport report = rig.run(trace, std::make_unique<ToldPolicy>(all));
  EXPECT_EQ(report.moves, 3u);
  EXPECT_NEAR(report.seconds(), 5.093, 1e-6);
  std::vector<std::size_t> moved;
  for (std::size_t at = 0; at < report.windows.size(); ++at)
    if (report.windows[at].bytes_moved > 0) moved.push_back(at);
  // By 72 ms, and 31 ms after 2 ms of the first stop are a second ago.
  EXPECT_EQ(moved, (std::vector<std::size_t>{0, 10}));
}

TEST(ReplayRounds, AtOnceARangeIsPlacedBehindTheAccessesBeforeIt) {
  ReplayRig rig;
  rig.options.pacing = Pacing::at_once;
  ListedTrace trace;
  trace.alloc(start, 1, 400, on_0).access(start, 1, 400, on_0);
  trace.place(seconds(1), 1, 400, on_1).access(seconds(2), 1, 400, on_0);
  const ReplayReport report = rig.run(trace);
  EXPECT_EQ(report.bytes_by_place.at("gpu(0)"), 400);
  EXPECT_EQ(report.bytes_by_place.at("gpu(1)"), 400);
  EXPECT_NEAR(report.seconds(), 1.1, 1e-6);
}

}  // namespace
}  // namespace vma
