// Goal: a replay reports the right times for traces that can be computed by hand. HBM serves 4000
// bytes per second, a peer 400, the host 50; moves cost only their copy unless a test says
// otherwise.

#include "base/units.hpp"
#include "unit/lab/replay/replay_rig.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>

namespace vma {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Replay, AnAccessTakesWhatItsPlaceGives) {
  const std::pair<TracePlace, double> places[] = {{on_0, 0.1}, {on_1, 1}, {on_host, 8}};
  for (const auto& [at, expected] : places) {
    ReplayRig rig;
    ListedTrace trace;
    trace.alloc(start, 7, 400, at).access(start, 7, 400, on_0);
    const ReplayReport report = rig.run(trace);
    EXPECT_NEAR(report.seconds(), expected, 1e-6);
    EXPECT_NEAR(report.access_s, expected, 1e-6);
    EXPECT_NEAR(report.local_s, 0.1, 1e-9);
    EXPECT_EQ(report.bytes, 400);
    EXPECT_EQ(report.bytes_by_place.at(to_string(at.place())), 400);
    EXPECT_EQ(report.accesses, 1u);
    EXPECT_EQ(report.devices[0].accesses, 1u);
    EXPECT_EQ(report.devices[1].accesses, 0u);
  }
}

TEST(Replay, BothWaysOfAReadAndWriteAndAllPassesCount) {
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 400, on_0).access(start, 1, 400, on_0);
  trace.last().use = UseKind::read_write;
  trace.last().passes = 2.5;
  const ReplayReport report = rig.run(trace);
  EXPECT_EQ(report.bytes, 2000);
  EXPECT_NEAR(report.seconds(), 0.5, 1e-6);
}

TEST(Replay, AnAccessOfHalfAYearCostsNoMoreTicksThanOneOfAMinute) {
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 400, on_0).access(start, 1, 400, on_0);
  trace.last().duration = std::chrono::days(196);
  const ReplayReport report = rig.run(trace);
  EXPECT_NEAR(report.seconds(), 196 * 86'400.0, 1);
  EXPECT_LT(report.ticks, 10'000u);
}

TEST(Replay, WorkThatTakesItsTimeAsksForNoMoreThanItNeeds) {
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 400, on_0).access(start, 1, 400, on_0);
  trace.last().duration = seconds(2);
  // The other access gets the rest of the peer's port: 400 - 200, until the first one ends.
  trace.access(start, 1, 400, on_1);
  const ReplayReport report = rig.run(trace);
  EXPECT_NEAR(in_seconds(report.devices[0].busy), 2, 1e-6);
  EXPECT_NEAR(in_seconds(report.devices[1].busy), 1, 1e-6);
}

TEST(Replay, DevicesShareALinkAndThenHaveItAlone) {
  ReplayRig rig;
  // As fast as local use, so that both share the HBM.
  rig.gpus.costs.access_rate(gpu_1, gpu_0) = 4000;
  ListedTrace trace;
  trace.alloc(start, 1, 800, on_0).access(start, 1, 400, on_0).access(start, 1, 800, on_1);
  const ReplayReport report = rig.run(trace);
  EXPECT_NEAR(in_seconds(report.devices[0].busy), 0.2, 1e-6);
  EXPECT_NEAR(in_seconds(report.devices[1].busy), 0.3, 1e-6);
}

TEST(Replay, ADeviceDoesOneThingAtATimeInOrder) {
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 400, on_0).access(start, 1, 400, on_0).access(start, 1, 400, on_0);
  trace.access(seconds(1), 1, 400, on_0);
  const ReplayReport report = rig.run(trace);
  EXPECT_NEAR(report.seconds(), 1.1, 1e-6);
  EXPECT_NEAR(report.wait_s, 0.1, 1e-6);
}

TEST(Replay, AtOnceOnlyTheOrderOfTheTraceCounts) {
  ReplayRig rig;
  rig.options.pacing = Pacing::at_once;
  ListedTrace trace;
  trace.alloc(start, 1, 400, on_0).access(start, 1, 400, on_0).access(seconds(9), 1, 400, on_0);
  EXPECT_NEAR(rig.run(trace).seconds(), 0.2, 1e-6);
}

TEST(Replay, TheTraceWaitsForADeviceWhoseQueueIsFull) {
  ReplayRig rig;
  rig.options.queue_max = 1;
  ListedTrace trace;
  trace.alloc(start, 1, 400, on_0);
  for (int i = 0; i < 3; ++i) trace.access(start, 1, 400, on_0);
  // Its device is idle, but the trace has not reached this access.
  trace.access(start, 1, 400, on_1);
  const ReplayReport report = rig.run(trace);
  // It begins when the first has ended, and shares the HBM.
  EXPECT_NEAR(report.seconds(), 1.1, 2e-2);
  // Of the first device 0.1 and 0.2 s, of the other one 0.1: what is held back waits, too.
  EXPECT_NEAR(report.wait_s, 0.4, 2e-2);
  EXPECT_EQ(report.accesses, 4u);
}

TEST(Replay, AnAccessOverTwoPlacesTakesTheSumOfBoth) {
  ReplayRig rig;
  rig.hbm_bytes = 100;
  ListedTrace trace;
  trace.alloc(start, 1, 150).access(start, 1, 100, on_0, 50);
  const ReplayReport report = rig.run(trace);
  // 50 bytes from local HBM; 50 from the peer, which is the next best.
  EXPECT_NEAR(report.seconds(), 50.0 / 4000 + 50.0 / 400, 1e-6);
  EXPECT_EQ(report.bytes_by_place.at("gpu(1)"), 50);
}

TEST(Replay, ARangeOfAnObjectWithoutAHomeLiesAtFirstWhereTheTraceSays) {
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 250).alloc(start, 2, 100).place(start, 1, 100, on_host, 100);
  trace.place(start, 2, 100, on_host).free(start, 2).alloc(start, 2, 100);
  trace.access(start, 1, 250, on_0).access(start, 2, 100, on_0);
  const ReplayReport report = rig.run(trace);
  EXPECT_EQ(report.bytes_by_place.at("gpu(0)"), 150 + 100) << "another object 2 has other places";
  EXPECT_EQ(report.bytes_by_place.at("host(0)"), 100);
}

TEST(Replay, AHomeThatTheMachineLacksIsTakenModuloThoseThatItHas) {
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 100, TracePlace(gpu(3))).alloc(start, 2, 50, TracePlace(host(1)));
  trace.access(start, 1, 100, TracePlace(gpu(3))).access(start, 2, 50, on_0);
  const ReplayReport report = rig.run(trace);
  EXPECT_EQ(report.bytes_by_place.at("gpu(1)"), 100);
  EXPECT_EQ(report.bytes_by_place.at("host(0)"), 50);
}

TEST(Replay, ARangeLiesAtFirstWhereTheTraceSays) {
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 250, on_0)
      .place(start, 1, 100, on_host, 100)
      .place(start, 1, 50, on_1, 200);
  trace.access(start, 1, 250, on_0);
  const ReplayReport report = rig.run(trace);
  EXPECT_EQ(report.bytes_by_place.at("gpu(0)"), 100);
  EXPECT_EQ(report.bytes_by_place.at("host(0)"), 100);
  EXPECT_EQ(report.bytes_by_place.at("gpu(1)"), 50);
  EXPECT_EQ(report.moves, 0u);
}

/// The planner refuses to move what has just moved: at the ticks from 0.5 s to 1.5 s.
TEST(Replay, WhatTheProgramMovesLaterHasJustMoved) {
  const auto run_placing_at = [](Time when) {
    ReplayRig rig;
    ListedTrace trace;
    trace.alloc(start, 1, 100, on_0).place(when, 1, 100, on_1);
    trace.access(seconds(1), 1, 100, on_0).access(seconds(2), 1, 100, on_0);
    const auto to_home = [](const Snapshot& snapshot, Plan& plan) {
      const bool away = snapshot.chunk(ChunkId{0}).at == gpu_1;
      if (away && snapshot.now() >= seconds(1)) plan.move(ChunkId{0}, gpu_0, 1, "told to");
    };
    return rig.run(trace, std::make_unique<ToldPolicy>(to_home));
  };
  EXPECT_EQ(run_placing_at(start).moves_refused.count("cooldown"), 0u);
  const ReplayReport moved = run_placing_at(milliseconds(500));
  EXPECT_EQ(moved.moves_refused.at("cooldown"), 50u);  // The ticks at 1 s, 1.01 s ... 1.49 s.
  EXPECT_EQ(moved.moves, 1u);
}

TEST(Replay, AMoveTakesItsCopyItsFixedPartAndAStall) {
  ReplayRig rig;
  rig.gpus.costs.move_fixed(gpu_1, gpu_0) = milliseconds(300);  // Includes the stall.
  rig.gpus.costs.stall_fixed(gpu_1, gpu_0) = milliseconds(100);
  rig.options.scheduler.planner.stall_share = 0;
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_1).access(start, 1, 100, on_0).access(seconds(2), 1, 100, on_0);
  const auto to_home = [](const Snapshot& snapshot, Plan& plan) {
    if (snapshot.now() == seconds(1)) plan.move(ChunkId{0}, gpu_0, 1, "told to");
  };
  const ReplayReport report = rig.run(trace, std::make_unique<ToldPolicy>(to_home));
  EXPECT_EQ(report.moves, 1u);
  EXPECT_EQ(report.bytes_moved, 100u);
  EXPECT_EQ(report.bytes_by_route.at("gpu(1)>gpu(0)"), 100u);
  EXPECT_EQ(report.stall, milliseconds(100));
  EXPECT_EQ(report.skew, start);
  // 0.25 s at the peer's rate, then local.
  EXPECT_NEAR(report.access_s, 0.25 + 0.025, 1e-6);
  // Prepared for 0.2 s, copied for 0.25 s, switched for 0.1 s: in the window of 1.5 s to 1.6 s.
  EXPECT_EQ(report.windows.at(15).bytes_moved, 100u);
  EXPECT_NEAR(report.move_s, 0.2 + 0.25 + 0.1, 1e-9);
}

TEST(Replay, AWindowSaysWhatLiesWhereAtItsEnd) {
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_1).alloc(start, 2, 30, on_host).access(start, 1, 100, on_0);
  trace.free(milliseconds(450), 2).access(seconds(2), 1, 100, on_0);
  const auto to_home = [](const Snapshot& snapshot, Plan& plan) {
    if (snapshot.now() == seconds(1)) plan.move(ChunkId{0}, gpu_0, 1, "told to");
  };
  const ReplayReport report = rig.run(trace, std::make_unique<ToldPolicy>(to_home));
  EXPECT_EQ(report.places, (std::vector<std::string>{"gpu(0)", "gpu(1)", "host(0)"}));
  using Resident = std::vector<std::uint64_t>;
  ASSERT_EQ(report.windows.size(), 21u);
  EXPECT_EQ(report.windows[3].resident, (Resident{0, 100, 30}));
  EXPECT_EQ(report.windows[4].resident, (Resident{0, 100, 0}));
  EXPECT_EQ(report.windows[11].resident, (Resident{0, 100, 0}));  // In progress until 1.25 s.
  EXPECT_EQ(report.windows[12].resident, (Resident{100, 0, 0}));
  EXPECT_EQ(report.windows[20].resident, (Resident{100, 0, 0}));
}

TEST(Replay, BytesAreToldByDeviceAndPlace) {
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 200, on_0).place(start, 1, 100, on_1, 100);
  trace.access(start, 1, 200, on_0).access(start, 1, 150, on_1);
  const ReplayReport report = rig.run(trace);
  EXPECT_EQ(report.devices[0].bytes_by_place, (std::vector<double>{100, 100, 0}));
  EXPECT_EQ(report.devices[1].bytes_by_place, (std::vector<double>{100, 50, 0}));
  EXPECT_NEAR(report.devices[0].local_s, 0.05, 1e-9);
  EXPECT_NEAR(report.devices[1].local_s, 0.0375, 1e-9);
}

TEST(Replay, AGateWaitsForTheLastDeviceAndKeepsTheOthersFromBeginning) {
  ReplayRig rig;
  rig.gpus.costs.stall_fixed(gpu_1, gpu_0) = rig.gpus.costs.move_fixed(gpu_1, gpu_0) = seconds(1);
  rig.options.scheduler.planner.stall_share = 0;
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_1).alloc(start, 2, 100, on_0);
  // The copy takes 0.25 s, and a tenth of both HBMs meanwhile: GPU 0 runs until 1.025 s, GPU 1
  // until 2.025 s, and each has more work to do.
  trace.access(start, 2, 100, on_0);
  trace.last().passes = 40;
  trace.access(start, 1, 100, on_1);
  trace.last().passes = 80;
  trace.access(start, 2, 100, on_0).access(start, 1, 100, on_1);
  const auto to_home = [](const Snapshot& snapshot, Plan& plan) {
    if (snapshot.now() == milliseconds(10)) plan.move(ChunkId{0}, gpu_0, 1, "told to");
  };
  const ReplayReport report = rig.run(trace, std::make_unique<ToldPolicy>(to_home));
  EXPECT_NEAR(in_seconds(report.skew), 1, 1e-6);
  EXPECT_EQ(report.stall, seconds(1));
  EXPECT_NEAR(in_seconds(report.devices[0].stopped), 2, 1e-6);
  EXPECT_NEAR(in_seconds(report.devices[1].stopped), 1, 1e-6);
  EXPECT_NEAR(report.seconds(), 3.275, 1e-6);  // For GPU 1 the object is now at its peer.
}

TEST(Replay, WhatIsSpreadStandsAtAGateAndGoesOn) {
  ReplayRig rig;
  rig.gpus.costs.stall_fixed(gpu_1, gpu_0) = rig.gpus.costs.move_fixed(gpu_1, gpu_0) = seconds(1);
  rig.options.scheduler.planner.stall_share = 0;
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_1).alloc(start, 2, 100, on_0).access(start, 2, 100, on_0);
  trace.last().duration = seconds(3);
  const auto to_home = [](const Snapshot& snapshot, Plan& plan) {
    if (snapshot.now() == milliseconds(10)) plan.move(ChunkId{0}, gpu_0, 1, "told to");
  };
  const ReplayReport report = rig.run(trace, std::make_unique<ToldPolicy>(to_home));
  EXPECT_EQ(report.moves, 1u);
  EXPECT_EQ(report.skew, start);
  EXPECT_NEAR(in_seconds(report.devices[0].stopped), 1, 1e-6);
  EXPECT_NEAR(report.seconds(), 4, 1e-6);
}

TEST(Replay, AccessesOfOneStretchOfWorkRunBesideEachOther) {
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_0);
  for (int i = 0; i < 5; ++i) {
    trace.access(start, 1, 100, on_0);
    trace.last().duration = seconds(2);
  }
  const ReplayReport report = rig.run(trace);
  EXPECT_NEAR(report.seconds(), 2, 1e-6);
  EXPECT_NEAR(report.access_s, 10, 1e-6);
  EXPECT_NEAR(report.local_s, 10, 1e-6);
  EXPECT_EQ(report.wait_s, 0);
}

TEST(Replay, WhatTheTraceDoesNotPlaceGoesToWhomeverTouchesItFirst) {
  ReplayRig rig;
  rig.router = "round_robin";
  ListedTrace trace;
  trace.alloc(start, 1, 100).alloc(start, 2, 100);
  for (int i = 0; i < 2; ++i) trace.access(start, 1, 100).access(start, 2, 100);
  const ReplayReport report = rig.run(trace);
  EXPECT_EQ(report.bytes_by_place.at("gpu(0)"), 200);
  EXPECT_EQ(report.bytes_by_place.at("gpu(1)"), 200);
  EXPECT_NEAR(report.access_s, report.local_s, 1e-6);
}

/// The first access runs on GPU 0 until 1 s, with nothing waiting; the others end at once.
TEST(Replay, WhatRunsIsLoadForTheRouterToo) {
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 100).alloc(start, 2, 100).access(start, 1, 100);
  trace.last().passes = 40;
  for (const Time time : {milliseconds(100), milliseconds(200), milliseconds(300)})
    trace.access(time, 2, 100);
  trace.access(seconds(2), 1, 100);
  const ReplayReport report = rig.run(trace);
  EXPECT_EQ(report.devices[0].accesses, 2u);
  EXPECT_EQ(report.devices[1].accesses, 3u);
}

TEST(Replay, WritesToAPeerGoTheOtherWay) {
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_1).access(start, 1, 100, on_0);
  trace.last().use = UseKind::write;
  const ReplayReport report = rig.run(trace);
  EXPECT_EQ(report.bytes_by_link.at("gpu(0) to peers"), 100);
  EXPECT_EQ(report.bytes_by_link.at("gpu(1) from peers"), 100);
  EXPECT_EQ(report.bytes_by_link.at("gpu(1) hbm"), 100);
  EXPECT_EQ(report.bytes_by_link.at("gpu(1) to peers"), 0);
}

TEST(Replay, AnAllocationWithoutRoomWaitsForWhatLeaves) {
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 1000, on_0)
      .alloc(seconds(5), 2, 500, on_0)
      .access(seconds(5), 2, 100, on_0);
  rig.options.room_limit = seconds(60);
  rig.options.scheduler.planner.stall_share = 0;
  const ReplayReport report = rig.run(trace);
  EXPECT_EQ(report.bytes_by_route.at("gpu(0)>gpu(1)"), 500u);
  EXPECT_EQ(report.chunks_spilled, 0u);
  EXPECT_EQ(report.bytes_by_place.at("gpu(0)"), 100);
  EXPECT_NEAR(report.seconds(), 5 + 500.0 / 400 + 100.0 / 4000, 1e-3);
}

TEST(Replay, WithoutTimeForRoomItGoesWhereThereIsSome) {
  ReplayRig rig;
  rig.options.room_limit = milliseconds(1);
  ListedTrace trace;
  trace.alloc(start, 1, 1000, on_0)
      .alloc(seconds(5), 2, 200, on_0)
      .access(seconds(5), 2, 200, on_0);
  const ReplayReport report = rig.run(trace);
  EXPECT_EQ(report.chunks_spilled, 2u);
  EXPECT_EQ(report.bytes_by_place.at("gpu(1)"), 200);
}

TEST(Replay, WhatFitsNowhereIsLostAndCounted) {
  ReplayRig rig;
  rig.host_bytes = 100;
  ListedTrace trace;
  trace.alloc(start, 1, 5000).access(start, 1, 100).free(start, 1);
  trace.alloc(start, 2, 100).access(start, 2, 100);
  const ReplayReport report = rig.run(trace);
  EXPECT_EQ(report.allocations_lost, 1u);
  EXPECT_EQ(report.accesses_lost, 1u);
  EXPECT_EQ(report.accesses, 1u);
}

/// Two chunks; the first GPU cannot reach the second one's GPU.
void add_half_out_of_reach(ListedTrace& trace) {
  trace.alloc(start, 1, 200, on_0).place(start, 1, 100, on_1, 100);
  trace.access(start, 1, 200, on_0);
}

TEST(Replay, AnAccessThatCannotBeDoneAsAWholeIsLostAsAWhole) {
  ReplayRig rig;
  rig.gpus.costs.access_rate(gpu_0, gpu_1) = 0;
  double heat = 0;
  bool asked = false;
  const auto look = [&](const Snapshot& snapshot, Plan&) {
    asked = true;
    heat += snapshot.total_heat(ChunkId{0}).short_term();
  };
  ListedTrace trace;
  add_half_out_of_reach(trace);
  trace.access(seconds(1), 1, 100, on_1, 100);
  const ReplayReport report = rig.run(trace, std::make_unique<ToldPolicy>(look));
  EXPECT_EQ(report.accesses_lost, 1u);
  EXPECT_EQ(report.accesses, 1u);
  EXPECT_EQ(report.bytes, 100);
  EXPECT_EQ(report.devices[0].bytes, 0);
  EXPECT_EQ(report.bytes_by_place.at("gpu(0)"), 0);
  EXPECT_TRUE(asked);
  EXPECT_EQ(heat, 0) << "the half that could be reached is no use of it";
}

TEST(Replay, ALostAccessIsNoKernelThatTheNextOneFollows) {
  ReplayRig rig;
  rig.gpus.costs.access_rate(gpu_0, gpu_1) = 0;
  rig.gaps.kernel = rig.gaps.round = {milliseconds(10), milliseconds(10)};
  ListedTrace trace;
  add_half_out_of_reach(trace);
  trace.access(start, 1, 100, on_0);
  const ReplayReport report = rig.run(trace);
  EXPECT_EQ(report.accesses_lost, 1u);
  EXPECT_EQ(report.wait_s, 0);
}

TEST(Replay, AFreeWaitsForTheAccessesBeforeIt) {
  ReplayRig rig;
  rig.hbm_bytes = 100;
  rig.host_bytes = 0;
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_0).alloc(start, 2, 100, on_1);
  for (int i = 0; i < 3; ++i) trace.access(start, 1, 100, on_0);
  // There is room only after the accesses have ended, but the allocation does not wait for that.
  trace.free(start, 1).alloc(start, 1, 100, on_0).access(start, 1, 100, on_0);
  trace.alloc(seconds(1), 3, 100, on_0).access(seconds(1), 3, 100, on_0);
  const ReplayReport report = rig.run(trace);
  EXPECT_EQ(report.allocations_lost, 1u);
  EXPECT_EQ(report.accesses, 4u);
  EXPECT_NEAR(report.seconds(), 1.025, 1e-6);
}

TEST(Replay, ReportsPhasesAndTenants) {
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_0, "a").alloc(start, 2, 100, on_host, "b");
  trace.access(start, 1, 100, on_0).access(start, 2, 50, on_1);
  trace.mark(seconds(3), "second").access(seconds(3), 2, 50, on_1);
  const ReplayReport report = rig.run(trace);
  EXPECT_EQ(report.tenants.at("a").bytes, 100);
  EXPECT_EQ(report.tenants.at("b").accesses, 2u);
  EXPECT_NEAR(report.tenants.at("b").access_s, 2, 1e-6);
  ASSERT_EQ(report.marks.size(), 1u);
  EXPECT_EQ(report.marks[0], std::pair(Time(seconds(3)), std::string("second")));
}

TEST(Replay, APolicyThatThrowsLosesItsPlanAndThenItsPlace) {
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_1).access(start, 1, 100, on_0).access(seconds(2), 1, 100, on_0);
  int asked = 0;
  const auto throws = [&](const Snapshot&, Plan& plan) {
    ++asked;
    plan.move(ChunkId{0}, gpu_0, 1, "told to");
    throw std::runtime_error("on purpose");
  };
  const ReplayReport report = rig.run(trace, std::make_unique<ToldPolicy>(throws));
  EXPECT_EQ(report.policy_failures, 3u);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(report.moves, 0u);
}

TEST(Replay, RefusesWhatDoesNotFitTheEventsBefore) {
  const auto refusal = [](ListedTrace& trace) -> std::string {
    ReplayRig rig;
    try {
      rig.run(trace);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      return error.what();
    }
    return "";
  };
  ListedTrace unknown, past, twice;
  unknown.alloc(start, 1, 100).access(start, 2, 10);
  EXPECT_NE(refusal(unknown).find("event 2: access of object 2, which does not exist"),
            std::string::npos);
  past.alloc(start, 1, 100).access(start, 1, 51, {}, 50);
  EXPECT_NE(refusal(past).find("event 2: access of object 1, past its end"), std::string::npos);
  twice.alloc(start, 1, 100).alloc(start, 1, 100);
  EXPECT_NE(refusal(twice).find("already exists"), std::string::npos);
  ListedTrace empty, many, endless, late;
  EXPECT_NE(refusal(empty).find("no events"), std::string::npos);
  many.alloc(start, 1, (std::uint64_t{1} << 32) + 5);
  many.last().chunk_bytes = 1;
  EXPECT_NE(refusal(many).find("million chunks"), std::string::npos);
  endless.alloc(start, 1, 100).access(start, 1, 100);
  endless.last().passes = 1e30f;
  EXPECT_NE(refusal(endless).find("10^18"), std::string::npos);
  late.alloc(start, 1, 100).access(Time::max() / 2, 1, 100);
  EXPECT_NE(refusal(late).find("year"), std::string::npos);
}

}  // namespace
}  // namespace vma
