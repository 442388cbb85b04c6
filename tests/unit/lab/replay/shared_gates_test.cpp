// Goal: moves of a replay share gates as those of the mover do, and the stall of a shared gate can
// be computed by hand. Chunks of 100 bytes; a move costs its copy and the stall that a test sets.

#include "base/units.hpp"
#include "unit/lab/replay/replay_rig.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>

namespace vma {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

/// Twelve chunks at GPU 1, all of which a policy moves after a second.
struct SharedGatesRig : ReplayRig {
  SharedGatesRig() {
    hbm_bytes = 5'000;
    options.scheduler.planner.stall_share = 0;
    for (const PlaceId from : {gpu_0, gpu_1, host_0}) {
      for (const PlaceId to : {gpu_0, gpu_1, host_0})
        if (from != to) stall(from, to, microseconds(500));
    }
  }
  void stall(PlaceId from, PlaceId to, Time alone) {
    gpus.costs.stall_fixed(from, to) = gpus.costs.move_fixed(from, to) = alone;
  }
  /// `to`: where the chunk of that number goes.
  template <typename Target>
  ReplayReport run_moving(Target&& to) {
    ListedTrace trace;
    trace.alloc(start, 1, 1'200, on_1)
        .access(start, 1, 100, on_1)
        .access(seconds(60), 1, 100, on_1);
    const auto tell = [&](const Snapshot& snapshot, Plan& plan) {
      if (snapshot.now() != seconds(1)) return;
      for (std::uint32_t chunk = 0; chunk < 12; ++chunk)
        plan.move(ChunkId{chunk}, to(chunk), 1, "told to");
    };
    return run(trace, std::make_unique<ToldPolicy>(tell));
  }
  ReplayReport run_to_gpu_0() {
    return run_moving([](std::uint32_t) { return gpu_0; });
  }
};

/// Planned are 0.6 of 2 ms less 50 us: five chunks of 0.4 x 500 us. The first takes 500 us, each
/// further one 200.
TEST(SharedGates, HaveAsManyChunksAsTheirTimeAllows) {
  SharedGatesRig rig;
  const ReplayReport report = rig.run_to_gpu_0();
  EXPECT_EQ(report.moves, 12u);
  EXPECT_EQ(report.gates, 3u);
  EXPECT_EQ(report.stall, microseconds(2 * (500 + 4 * 200) + 500 + 200));
}

TEST(SharedGates, HaveOneChunkIfGatesMayNotStand) {
  SharedGatesRig rig;
  rig.options.max_stall = Time(0);
  const ReplayReport report = rig.run_to_gpu_0();
  EXPECT_EQ(report.gates, 12u);
  EXPECT_EQ(report.stall, microseconds(12 * 500));
}

/// 4 us a byte: 400 us a chunk, which settle while the one before it is switched. Two fit.
TEST(SharedGates, TakeTheTimeOfBytesThatSettleLongerThanASwitch) {
  SharedGatesRig rig;
  rig.gpus.costs.stall_per_byte(gpu_1, gpu_0) = rig.gpus.costs.move_per_byte(gpu_1, gpu_0) = 4e-6;
  const ReplayReport report = rig.run_to_gpu_0();
  EXPECT_EQ(report.gates, 6u);
  EXPECT_NEAR(in_seconds(report.stall), 6 * (900 + 400) * 1e-6, 1e-7);
}

/// Those to the host have gates of their own: six chunks each.
TEST(SharedGates, JoinAllMovesBetweenGpusOrThoseOfOneRoute) {
  SharedGatesRig rig;
  rig.stall(gpu_1, gpu_0, microseconds(250));
  rig.stall(gpu_1, host_0, microseconds(250));
  const ReplayReport report =
      rig.run_moving([](std::uint32_t chunk) { return chunk % 2 == 0 ? gpu_0 : host_0; });
  EXPECT_EQ(report.moves, 12u);
  EXPECT_EQ(report.gates, 2u);
  EXPECT_EQ(report.stall, microseconds(2 * (250 + 5 * 100)));
}

TEST(SharedGates, OfBothDirectionsBetweenGpusAreTheSame) {
  SharedGatesRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_1).alloc(start, 2, 100, on_0);
  trace.access(start, 1, 100, on_1).access(seconds(60), 2, 100, on_0);
  const auto swap = [](const Snapshot& snapshot, Plan& plan) {
    if (snapshot.now() != seconds(1)) return;
    plan.move(ChunkId{0}, gpu_0, 1, "told to");
    plan.move(ChunkId{1}, gpu_1, 1, "told to");
  };
  const ReplayReport report = rig.run(trace, std::make_unique<ToldPolicy>(swap));
  EXPECT_EQ(report.moves, 2u);
  EXPECT_EQ(report.gates, 1u);
  EXPECT_EQ(report.stall, microseconds(500 + 200));
}

}  // namespace
}  // namespace vma
