// Goal: a long access sees the moves of its memory, and policies see it proceed. Method:
// hand-computed cases, and the same bytes as many short accesses. HBM serves 4000 bytes per second,
// a peer 400, the host 50.

#include "base/units.hpp"
#include "unit/lab/replay/replay_rig.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::unique_ptr<Policy> moving(ChunkId chunk, PlaceId to, Time at) {
  return std::make_unique<ToldPolicy>([=](const Snapshot& snapshot, Plan& plan) {
    if (snapshot.now() == at) plan.move(chunk, to, 1, "told to");
  });
}

ReplayRig rig_with_free_moves() {
  ReplayRig rig;
  rig.options.scheduler.planner.stall_share = 0;
  return rig;
}

/// One chunk at the host, of which GPU 0 reads 2000 bytes in 2 s.
void add_reads_of_two_seconds(ListedTrace& trace, int accesses) {
  trace.alloc(start, 1, 100, on_host);
  for (int i = 0; i < accesses; ++i) {
    trace.access(start + i * (Time(seconds(2)) / accesses), 1, 100, on_0);
    trace.last().duration = Time(seconds(2)) / accesses;
    trace.last().passes = 20.0f / static_cast<float>(accesses);
  }
}

TEST(LongAccesses, OneTakesAsLongAsTheSameBytesInSlices) {
  double took[2] = {};
  for (const auto& [accesses, result] : {std::pair(1, &took[0]), std::pair(200, &took[1])}) {
    ReplayRig rig = rig_with_free_moves();
    rig.gpus.costs.copy_rate(host_0, gpu_0) = 10'000;  // Ends within milliseconds.
    rig.gpus.costs.access_rate(gpu_0, host_0) = 50;
    ListedTrace trace;
    add_reads_of_two_seconds(trace, accesses);
    *result = rig.run(trace, moving(ChunkId{0}, gpu_0, milliseconds(10))).seconds();
  }
  EXPECT_NEAR(took[0], took[1], 0.02 * took[1]);
  EXPECT_LT(took[0], 2.1);
}

TEST(LongAccesses, TheRestContinuesWhereTheChunkIsNow) {
  ReplayRig rig = rig_with_free_moves();
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_1).access(start, 1, 100, on_0);
  trace.last().duration = seconds(2);
  trace.last().passes = 16;
  // 800 bytes per second are wanted, and the peer gives 400, of which the copy takes 200 from 1 s
  // to 1.5 s: 500 bytes are read by then. The others come at 800.
  const ReplayReport report = rig.run(trace, moving(ChunkId{0}, gpu_0, seconds(1)));
  EXPECT_EQ(report.moves, 1u);
  EXPECT_NEAR(report.seconds(), 1.5 + 1100.0 / 800, 1e-6);
  EXPECT_NEAR(report.bytes_by_place.at("gpu(1)"), 500, 1e-3);
  EXPECT_NEAR(report.bytes_by_place.at("gpu(0)"), 1100, 1e-3);
  EXPECT_EQ(report.bytes, 1600);
}

TEST(LongAccesses, WhatIsReadAndWrittenStaysTheSame) {
  ReplayRig rig = rig_with_free_moves();
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_1).access(start, 1, 100, on_0);
  trace.last().duration = seconds(2);
  trace.last().passes = 2;
  trace.last().use = UseKind::read_write;
  const ReplayReport report = rig.run(trace, moving(ChunkId{0}, gpu_0, milliseconds(500)));
  EXPECT_EQ(report.moves, 1u);
  // All 200 bytes per second are had everywhere, so it takes its 2 s; the copy ends at 1 s or
  // before. What came from the peer was read, except for the moved chunk's own 100 bytes.
  EXPECT_NEAR(report.seconds(), 2, 1e-6);
  const double written = report.bytes_by_link.at("gpu(0) to peers");
  const double read = report.bytes_by_link.at("gpu(1) to peers") - 100;
  EXPECT_NEAR(read + written + report.bytes_by_place.at("gpu(0)"), 400, 1e-3);
  EXPECT_NEAR(report.bytes_by_place.at("gpu(1)"), read + written, 1e-3);
  EXPECT_EQ(written, 0) << "an access reads what lies at one place before it writes it";
}

TEST(LongAccesses, PassesOverTwoPlacesAlternate) {
  ReplayRig rig = rig_with_free_moves();
  ListedTrace trace;
  trace.alloc(start, 1, 200, on_0).place(start, 1, 100, on_1, 100);
  trace.access(start, 1, 200, on_0);
  trace.last().duration = seconds(2);
  trace.last().passes = 2;
  // A pass takes 1 s, its second half at the peer. The copy of the second chunk shares the peer's
  // port with it from 0.75 s, has it alone from 1 s, and ends at 1.125 s.
  const ReplayReport report = rig.run(trace, moving(ChunkId{1}, gpu_0, milliseconds(750)));
  EXPECT_EQ(report.moves, 1u);
  EXPECT_NEAR(report.seconds(), 2, 1e-6);
  EXPECT_NEAR(report.bytes_by_place.at("gpu(1)"), 100, 1e-3);
  EXPECT_NEAR(report.bytes_by_place.at("gpu(0)"), 300, 1e-3);
}

// The planner knows only users of before it accepted the move.
TEST(LongAccesses, OneOutOfReachAfterAMoveIsLost) {
  ReplayRig rig = rig_with_free_moves();
  rig.gpus.costs.access_rate(gpu_0, gpu_1) = 0;
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_host).access(seconds(1), 1, 100, on_0);
  trace.last().duration = seconds(20);
  trace.access(seconds(30), 1, 100, on_1);
  const ReplayReport report = rig.run(trace, moving(ChunkId{0}, gpu_1, milliseconds(10)));
  EXPECT_EQ(report.moves, 1u);
  EXPECT_EQ(report.accesses_lost, 1u);
  EXPECT_EQ(report.accesses, 1u);
}

// Chunk 1 stays at the peer while chunk 2 leaves it in mid-slice: its bytes are still read there.
TEST(LongAccesses, AMoveWithinASliceSkipsNothing) {
  ReplayRig rig = rig_with_free_moves();
  rig.options.use_interval = seconds(3);
  ListedTrace trace;
  trace.alloc(start, 1, 300, on_0).place(start, 1, 200, on_1, 100);
  trace.access(start, 1, 300, on_0);
  trace.last().duration = seconds(6);
  trace.last().passes = 2;
  // A pass takes 3 s; the last 100 bytes of the first begin at 2 s, when they have just arrived.
  const ReplayReport report = rig.run(trace, moving(ChunkId{2}, gpu_0, milliseconds(500)));
  EXPECT_EQ(report.moves, 1u);
  EXPECT_NEAR(report.seconds(), 6, 1e-6);
  EXPECT_NEAR(report.bytes_by_place.at("gpu(1)"), 200, 1e-3);
  EXPECT_NEAR(report.bytes_by_place.at("gpu(0)"), 400, 1e-3);
}

/// Counts the uses that it is told.
class CountingPolicy : public Policy {
 public:
  struct Use {
    Time at{0};
    double read = 0, written = 0;
  };
  explicit CountingPolicy(std::vector<Use>& uses) : uses_(uses) {}
  void on_use(const UseEvent& use, const Snapshot& snapshot, Plan&) override {
    uses_.push_back({snapshot.now(), use.bytes_read, use.bytes_written});
  }

 private:
  std::vector<Use>& uses_;
};

TEST(LongAccesses, AreReportedAsTheyProceed) {
  std::vector<CountingPolicy::Use> uses;
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_0).access(start, 1, 100, on_0);
  trace.last().duration = seconds(1);
  trace.last().passes = 10;
  rig.run(trace, std::make_unique<CountingPolicy>(uses));
  ASSERT_EQ(uses.size(), 100u);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    EXPECT_EQ(uses[i].at, milliseconds(10) * i + milliseconds(1));
    EXPECT_NEAR(uses[i].read, 10, 1e-6);
  }
}

TEST(LongAccesses, AreReportedAsFastAsTheirMemoryIs) {
  std::vector<CountingPolicy::Use> uses;
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_host).access(start, 1, 100, on_0);
  trace.last().duration = seconds(1);
  trace.last().use = UseKind::write;
  rig.run(trace, std::make_unique<CountingPolicy>(uses));
  double written = 0;
  for (const CountingPolicy::Use& use : uses) written += use.written;
  EXPECT_NEAR(written, 100, 1e-6);
  // The link gives half of what is wanted: it takes 2 s.
  EXPECT_GE(uses.back().at, milliseconds(1900));
  EXPECT_NEAR(uses[100].written, 0.5, 1e-6);
}

TEST(LongAccesses, KernelsAreReportedWhenTheyBegin) {
  std::vector<CountingPolicy::Use> uses;
  ReplayRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_host).access(start, 1, 100, on_0);
  rig.run(trace, std::make_unique<CountingPolicy>(uses));
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_EQ(uses[0].read, 100);
}

// `stay_put` ignores uses, but the choice of victims does not.
TEST(LongAccesses, WhatWasUsedLongestAgoMakesRoom) {
  ReplayRig rig = rig_with_free_moves();
  rig.options.room_limit = seconds(60);
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_0).alloc(start, 2, 900, on_0);
  trace.access(seconds(1), 2, 900, on_0).access(seconds(2), 1, 100, on_0);
  trace.alloc(seconds(5), 3, 900, on_0).access(seconds(5), 3, 900, on_0);
  trace.access(seconds(9), 1, 100, on_0);
  const ReplayReport report = rig.run(trace);
  EXPECT_EQ(report.bytes_by_route.at("gpu(0)>gpu(1)"), 900u);
  EXPECT_EQ(report.bytes_by_place.at("gpu(0)"), 900 + 100 + 900 + 100);
}

}  // namespace
}  // namespace vma
