// Goal: the tasks of a closed loop start, repeat and end when their dependencies say. Method: cases
// computed by hand. HBM serves 4000 bytes per second, a peer 400, the host 50.

#include "base/units.hpp"
#include "lab/replay/replay_metrics.hpp"
#include "unit/lab/replay/replay_rig.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace vma {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(ReplayTasks, ATaskWaitsForItsPredecessors) {
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 400, on_host).alloc(start, 2, 400, on_0);
  // The first takes 8 s at the host; the second would end after 0.1 s.
  trace.task(start, 1, Time(0), {}, 1, on_0).access(start, 1, 400, on_0).of_task(1);
  trace.task(start, 2, Time(0), {}, 1, on_1).access(start, 2, 400, on_1).of_task(2);
  trace.task(start, 3, Time(0), {1, 2}, 1, on_0).access(start, 2, 400, on_0).of_task(3);
  const ReplayReport report = rig.run(trace);
  EXPECT_EQ(report.accesses, 3u);
  EXPECT_NEAR(report.seconds(), 8.1, 1e-6);
  EXPECT_EQ(report.wait_s, 0) << "what waits for other tasks does not wait for its device";
}

TEST(ReplayTasks, AnOpenLoopOfTheSameKernelsDoesNotWait) {
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 400, on_host).alloc(start, 2, 400, on_0);
  trace.access(start, 1, 400, on_0).access(start, 2, 400, on_1);
  EXPECT_NEAR(rig.run(trace).seconds(), 8, 1e-6);
}

TEST(ReplayTasks, ATaskStartsNoEarlierThanItsTime) {
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 400, on_0);
  trace.task(start, 1, Time(0), {}, 1, on_0).access(start, 1, 400, on_0).of_task(1);
  trace.task(seconds(3), 2, Time(0), {1}, 1, on_0).access(seconds(3), 1, 400, on_0).of_task(2);
  EXPECT_NEAR(rig.run(trace).seconds(), 3.1, 1e-6);
}

TEST(ReplayTasks, ComputingTakesItsTimeWithAndWithoutAccesses) {
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 400, on_0);
  trace.task(start, 1, seconds(2), {}, 1, on_0).access(start, 1, 400, on_0).of_task(1);
  trace.task(start, 2, seconds(1), {1});
  trace.task(start, 3, Time(0), {2}, 1, on_0).access(start, 1, 400, on_0).of_task(3);
  EXPECT_NEAR(rig.run(trace).seconds(), 3.1, 1e-6);
}

TEST(ReplayTasks, MemoryThatIsSlowerThanComputingDelaysWhatFollows) {
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 400, on_host).alloc(start, 2, 100, on_0);
  trace.task(start, 1, seconds(1), {}, 1, on_0);
  trace.access(start, 1, 400, on_0).of_task(1).access(start, 2, 100, on_0).of_task(1);
  trace.task(start, 2, seconds(1), {1}, 1, on_0).access(start, 2, 100, on_0).of_task(2);
  EXPECT_NEAR(rig.run(trace).seconds(), 9, 1e-6);
}

TEST(ReplayTasks, StepsFollowEachOther) {
  for (const Time step : {Time(milliseconds(500)), Time(milliseconds(10))}) {
    ReplayRig rig;
    ListedTrace trace;
    trace.alloc(start, 1, 100, on_0).alloc(start, 2, 100, on_1);
    trace.task(start, 1, step, {}, 1, on_0);
    trace.last().bytes = 10;
    trace.last().object = 7;
    trace.access(start, 1, 100, on_0).of_task(1).access(start, 2, 100, on_0).of_task(1);
    const ReplayReport report = rig.run(trace);
    // The peer gives a step's 100 bytes in 0.25 s: not the shorter steps, of which 10 are one
    // access.
    const double each = std::max(in_seconds(step), 0.25);
    EXPECT_NEAR(report.seconds(), 10 * each, 1e-6);
    EXPECT_EQ(report.bytes, 2000);
    EXPECT_EQ(report.accesses, step == Time(milliseconds(500)) ? 20u : 2u);
  }
}

TEST(ReplayTasks, WhatIsFreedAfterATaskIsThereUntilThen) {
  ReplayRig rig;
  rig.hbm_bytes = 100;
  rig.options.room_limit = seconds(60);
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_0);
  trace.task(start, 1, seconds(2), {}, 1, on_0).access(start, 1, 100, on_0).of_task(1);
  trace.free(start, 1).of_task(1).alloc(start, 2, 100, on_0).of_task(1);
  trace.task(start, 2, seconds(1), {1}, 1, on_0).access(start, 2, 100, on_0).of_task(2);
  const ReplayReport report = rig.run(trace);
  EXPECT_NEAR(report.seconds(), 3, 1e-6);
  EXPECT_EQ(report.bytes_by_place.at("gpu(0)"), 200);
  EXPECT_EQ(report.chunks_spilled, 0u);
}

TEST(ReplayTasks, AFreeAlsoWaitsForTheTasksBeforeIt) {
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_0);
  trace.task(start, 1, seconds(2), {}, 1, on_0).access(start, 1, 100, on_0).of_task(1);
  trace.task(start, 2, seconds(3), {}, 1, on_0).access(start, 1, 100, on_0).of_task(2);
  trace.task(start, 3, seconds(1), {2}, 1, on_0).access(start, 1, 100, on_0).of_task(3);
  trace.free(start, 1).of_task(1);
  const ReplayReport report = rig.run(trace);
  EXPECT_EQ(report.accesses, 3u);
  EXPECT_NEAR(report.seconds(), 4, 1e-6);
}

TEST(ReplayTasks, WithoutMovesThatMakeRoomAnAllocationIsLostAtOnce) {
  ReplayRig rig;
  rig.hbm_bytes = 100;
  rig.host_bytes = 0;
  rig.options.room_limit = seconds(60);
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_0).alloc(start, 2, 100, on_1);
  trace.task(start, 1, seconds(2), {}, 1, on_0).access(start, 1, 100, on_0).of_task(1);
  trace.free(start, 1).of_task(1);
  trace.alloc(start, 3, 100).task(start, 2, seconds(1), {}, 1, on_0);
  trace.access(start, 3, 100, on_0).of_task(2);
  const ReplayReport report = rig.run(trace);
  EXPECT_EQ(report.allocations_lost, 1u);
  EXPECT_NEAR(report.seconds(), 2, 1e-6);
}

TEST(ReplayTasks, AnAllocationThatWaitsForRoomIsThereForNobody) {
  ReplayRig rig;
  rig.hbm_bytes = 100;
  rig.options.room_limit = seconds(60);
  rig.options.scheduler.planner.stall_share = 0;
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_0).task(start, 1, seconds(1), {}, 1, on_0);
  trace.access(start, 1, 100, on_0).of_task(1);
  // At 1 s, object 2 waits until object 1 has left, and object 4 waits behind it; the task that
  // uses both waits for the allocations.
  trace.alloc(start, 2, 50, on_0).of_task(1).alloc(start, 4, 50, on_0).of_task(1);
  trace.task(start, 2, Time(0), {1}, 1, on_0);
  trace.access(start, 4, 50, on_0).of_task(2).access(start, 2, 50, on_0).of_task(2);
  trace.free(start, 2).of_task(2).free(start, 1).of_task(1);
  const ReplayReport report = rig.run(trace);
  EXPECT_EQ(report.accesses, 3u);
  EXPECT_EQ(report.bytes_by_place.at("gpu(0)"), 200);
  EXPECT_EQ(report.allocations_lost + report.chunks_spilled, 0u);
}

// The access that waits for room has its place in the queue, however much tasks launch meanwhile.
TEST(ReplayTasks, WhatTasksLaunchDoesNotCountAgainstTheQueue) {
  ReplayRig rig;
  rig.hbm_bytes = 100;
  rig.options.queue_max = 4;
  rig.options.room_limit = milliseconds(100);
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_0).alloc(start, 2, 100, on_host);
  trace.task(start, 1, milliseconds(10), {}, 1, on_0);
  trace.task(start, 2, Time(0), {1}, 1, on_0);
  for (int i = 0; i < 20; ++i) trace.access(start, 2, 100, on_0).of_task(2);
  trace.alloc(start, 3, 100, on_0).access(start, 3, 100, on_0);
  const ReplayReport report = rig.run(trace);
  EXPECT_EQ(report.accesses, 21u);
  EXPECT_NEAR(report.seconds(), 42, 1);
}

TEST(ReplayTasks, AllAccessesOfAStepBeginTogether) {
  ReplayRig rig;
  rig.options.spread_max = 2;
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_0).task(start, 1, seconds(1), {}, 1, on_0);
  for (int i = 0; i < 5; ++i) trace.access(start, 1, 100, on_0).of_task(1);
  EXPECT_NEAR(rig.run(trace).seconds(), 1, 1e-6);
}

TEST(ReplayTasks, ComputingThatEndsTheTraceCounts) {
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 400, on_0).task(start, 1, Time(0), {}, 1, on_0);
  trace.access(start, 1, 400, on_0).of_task(1).task(start, 2, seconds(3), {1});
  EXPECT_NEAR(rig.run(trace).seconds(), 3.1, 1e-6);
}

TEST(ReplayTasks, StepsWhoseAccessesAreLostStillCompute) {
  ReplayRig rig;
  rig.gpus.costs.access_rate(gpu_0, gpu_1) = 0;
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_1).task(start, 1, seconds(1), {}, 3, on_0);
  trace.access(start, 1, 100, on_0).of_task(1);
  const ReplayReport report = rig.run(trace);
  EXPECT_EQ(report.accesses_lost, 3u);
  EXPECT_NEAR(report.seconds(), 3, 1e-6);
}

TEST(ReplayTasks, ARequestIsRoutedByItsFirstAccess) {
  ReplayRig rig;
  rig.router = "round_robin";
  ListedTrace trace;
  for (const std::uint32_t request : {1, 2}) {
    trace.alloc(start, request, 100).task(start, request, seconds(1));
    trace.last().object = request;
    trace.task(start, 10 + request, seconds(1));
    trace.last().object = request;
    trace.access(start, request, 100).of_task(10 + request);
  }
  const ReplayReport report = rig.run(trace);
  EXPECT_EQ(report.devices[0].accesses, 1u);
  EXPECT_EQ(report.devices[1].accesses, 1u);
}

TEST(ReplayTasks, AtOnceRequestsComeWhenTheyAreRead) {
  ReplayRig rig;
  rig.options.pacing = Pacing::at_once;
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_0).task(seconds(100), 1, seconds(2), {}, 1, on_0);
  trace.last().object = 1;
  trace.access(seconds(100), 1, 100, on_0).of_task(1);
  const ReplayReport report = rig.run(trace);
  EXPECT_NEAR(metrics_of(report, rig.machine()).first_mean_s.value(), 2, 1e-6);
}

TEST(ReplayTasks, TasksOfARequestHappenOnOneDevice) {
  ReplayRig rig;
  rig.router = "round_robin";
  ListedTrace trace;
  // In turn, each would get two of request 1 and one of request 2.
  for (const std::uint32_t number : {1, 2, 3, 4, 5, 6}) {
    trace.alloc(start, number, 100).task(start, number, seconds(1));
    trace.last().object = number <= 4 ? 1 : 2;
    trace.access(start, number, 100).of_task(number);
  }
  const ReplayReport report = rig.run(trace);
  EXPECT_EQ(report.devices[0].accesses, 4u);
  EXPECT_EQ(report.devices[1].accesses, 2u);
}

TEST(ReplayTasks, RequestsSayHowLongTheirFirstTaskAndTheirStepsTook) {
  ReplayRig rig;
  ListedTrace trace;
  for (const std::uint32_t request : {1, 2}) {
    const auto at = request == 1 ? on_0 : on_host;
    trace.alloc(start, request, 100, at);
    trace.task(start, request, milliseconds(500), {}, 1, on_0);
    trace.last().object = request;
    trace.access(start, request, 100, on_0).of_task(request);
    trace.task(start, 10 + request, seconds(1), {}, 4, on_0);
    trace.last().object = request;
    trace.add(trace.last());
    trace.last().kind = TraceEventKind::after;
    trace.last().object = request;
    trace.access(start, request, 200, on_0).of_task(10 + request);
    trace.last().bytes = 100;
    trace.last().passes = 2;
  }
  const ReplayReport report = rig.run(trace);
  ASSERT_EQ(report.requests.size(), 2u);
  const ReplayMetrics metrics = metrics_of(report, rig.machine());
  EXPECT_EQ(metrics.requests, 2u);
  // At the host, 100 bytes take 2 s and the 200 of a step 4 s.
  EXPECT_NEAR(metrics.first_mean_s.value(), (0.5 + 2) / 2, 1e-6);
  EXPECT_NEAR(metrics.first_p99_s.value(), 2, 1e-6);
  EXPECT_NEAR(metrics.step_mean_s.value(), (1.0 + 4) / 2, 1e-6);
  EXPECT_NEAR(metrics.step_p99_s.value(), 4, 1e-6);
}

TEST(ReplayTasks, MarksHappenWhenTheirTaskHasEnded) {
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_0);
  trace.task(start, 1, seconds(2), {}, 1, on_0).access(start, 1, 100, on_0).of_task(1);
  trace.mark(start, "second").of_task(1);
  const ReplayReport report = rig.run(trace);
  ASSERT_EQ(report.marks.size(), 1u);
  EXPECT_EQ(report.marks[0].first, Time(seconds(2)));
}

TEST(ReplayTasks, RefusesTasksThatContradictEarlierOnes) {
  const auto refusal = [](ListedTrace& trace) -> std::string {
    try {
      ReplayRig().run(trace);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  ListedTrace twice, unknown, freed;
  twice.task(start, 1).task(start, 1);
  EXPECT_NE(refusal(twice).find("declared before"), std::string::npos);
  unknown.task(start, 2, Time(0), {1});
  EXPECT_NE(refusal(unknown).find("not declared"), std::string::npos);
  freed.alloc(start, 1, 100).free(start, 1).of_task(9);
  EXPECT_NE(refusal(freed).find("not declared"), std::string::npos);
}

}  // namespace
}  // namespace vma
