// Goal: a replay tells policies of uses as the runtime does of launches, computed by hand: a
// pointer reaches to the next one, half read and half written, once a launch. And with such uses, a
// cyclic reader under `auto` loses what it lost on a GPU, until the guard by pace stops it.
#include "base/units.hpp"
#include "lab/replay/replay_inputs.hpp"
#include "machine/machine_file.hpp"
#include "unit/lab/replay/replay_rig.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Writes down what it is told.
class WritesUsesDown : public Policy {
 public:
  explicit WritesUsesDown(std::vector<UseEvent>& uses) : uses_(uses) {}
  void on_use(const UseEvent& use, const Snapshot&, Plan&) override { uses_.push_back(use); }

 private:
  std::vector<UseEvent>& uses_;
};

struct ToldUsesRig : ReplayRig {
  explicit ToldUsesRig(ToldUses told) { options.told_uses = told; }

  /// What each chunk was told to have been used, in the order of their numbers, if it was.
  std::vector<double> told(ListedTrace& trace) {
    std::vector<UseEvent> uses;
    run(trace, std::make_unique<WritesUsesDown>(uses));
    std::vector<double> bytes(10);
    for (const UseEvent& use : uses) {
      EXPECT_EQ(use.bytes_read, use.bytes_written);
      bytes[index(use.chunk)] += use.bytes_read + use.bytes_written;
    }
    std::erase(bytes, 0);
    return bytes;
  }
};

// A read of 20 bytes of 300: nothing says where it ends. The read behind it passes another pointer,
// so that from then on the first one reaches to there.
TEST(ToldUses, ReachToTheNextPointerOfAnyLaunch) {
  ToldUsesRig rig(ToldUses::launches);
  ListedTrace alone, both;
  alone.alloc(start, 1, 300, on_0).access(start, 1, 20, on_0);
  EXPECT_EQ(rig.told(alone), (std::vector<double>{100, 100, 100}));
  both.alloc(start, 1, 300, on_0).access(start, 1, 20, on_0).access(start, 1, 20, on_0, 150);
  both.access(seconds(1), 1, 20, on_0);
  EXPECT_EQ(rig.told(both), (std::vector<double>{200, 150, 100}));
}

TEST(ToldUses, KnowNothingOfAnObjectThatIsFreedBeforeTheyAreTold) {
  ToldUsesRig rig(ToldUses::launches);
  ListedTrace trace;
  trace.alloc(start, 1, 300, on_0).access(start, 1, 20, on_0, 150).free(start, 1);
  trace.alloc(start, 1, 300, on_0).access(start, 1, 20, on_0);
  EXPECT_EQ(rig.told(trace), (std::vector<double>{100, 100, 100}));
}

TEST(ToldUses, OfBasePointersAreOfTheWholeObjectEachTime) {
  ToldUsesRig rig(ToldUses::base_pointers);
  ListedTrace trace;
  trace.alloc(start, 1, 300, on_0).access(start, 1, 20, on_0).access(start, 1, 20, on_0, 150);
  EXPECT_EQ(rig.told(trace), (std::vector<double>{200, 200, 200}));
}

// A kernel goes over its range as often as it likes: that is one use. What is spread over time
// stands for many kernels, one a pass, and those are told as they come.
TEST(ToldUses, AreOneALaunch) {
  ToldUsesRig rig(ToldUses::launches);
  ListedTrace kernel, spread;
  kernel.alloc(start, 1, 100, on_0).access(start, 1, 100, on_0);
  kernel.last().passes = 5;
  EXPECT_EQ(rig.told(kernel), (std::vector<double>{100}));
  spread.alloc(start, 1, 100, on_0).access(start, 1, 100, on_0);
  spread.last().passes = 5;
  spread.last().duration = seconds(1);
  EXPECT_EQ(rig.told(spread), (std::vector<double>{500}));
}

// 4000 bytes a second, and a second of credit: of 100 launches over 1000 bytes each, no more is
// told than the GPU can have accessed.
TEST(ToldUses, AreNoMoreThanTheDeviceCanHaveAccessed) {
  ToldUsesRig rig(ToldUses::base_pointers);
  rig.options.pacing = Pacing::at_once;
  ListedTrace trace;
  trace.alloc(start, 1, 1000, on_0);
  for (int i = 0; i < 60; ++i) trace.access(start, 1, 1, on_0);
  double all = 0;
  for (const double bytes : rig.told(trace)) all += bytes;
  EXPECT_GT(all, 3'900);
  EXPECT_LT(all, 4'200);
}

TEST(ToldUses, LeaveOutWhatNoLaunchShows) {
  ToldUsesRig rig(ToldUses::launches);
  ListedTrace all, half;
  for (ListedTrace* trace : {&all, &half}) {
    for (std::uint64_t object = 1; object <= 8; ++object)
      trace->alloc(start, object, 100, on_0).access(start, object, 100, on_0);
  }
  rig.options.unseen = 1;
  EXPECT_EQ(rig.told(all), std::vector<double>{});
  rig.options.unseen = 0.5;
  double seen = 0;
  for (const double bytes : rig.told(half)) seen += bytes;
  EXPECT_GT(seen, 100);
  EXPECT_LT(seen, 700);
}

/// On one H200 with 4.08 GiB of HBM: 5 GiB of weights in 40 segments, each of which eight kernels
/// use. The first ones lie at the host, as if the others had pushed them out.
struct CyclicReader {
  CyclicReader() {
    options.stall_budget = milliseconds(60);
    cap_places(machine, {4.08, std::nullopt});
    stop_by(StopKind::suspension, machine, options);
  }
  ReplayReport run(const char* policy, ToldUses told, bool guarded) {
    options.told_uses = told;
    options.scheduler.pace.watches = guarded;
    ListedTrace trace;
    for (std::uint64_t segment = 1; segment <= segments; ++segment)
      trace.alloc(start, segment, 128 * MiB, segment <= 9 ? on_host : on_0);
    std::uint32_t task = 0;
    for (std::uint64_t step = 0; step < 300; ++step) {
      for (std::uint64_t i = 0; i < segments * kernels; ++i, ++task) {
        if (task == 0) {
          trace.task(start, 1, compute, {}, 1, on_0);
        } else {
          trace.task(start, task + 1, compute, {task}, 1, on_0);
        }
        trace.access(start, i / kernels + 1, 128 * MiB / kernels, on_0,
                     i % kernels * (128 * MiB / kernels));
        trace.of_task(task + 1);
      }
    }
    return Replay(machine, options, lab_policies().make(policy), make_router("prefix")).run(trace);
  }

  static constexpr std::uint64_t segments = 40, kernels = 8;
  static constexpr Time compute = Time(milliseconds(200)) / (segments * kernels);
  ReplayMachine machine = replay_machine(load_machine("h200x1"));
  ReplayOptions options;
};

/// Moves in each five seconds.
std::vector<std::uint64_t> moved(const ReplayReport& report) {
  std::vector<std::uint64_t> bytes;
  for (std::size_t i = 0; i < report.windows.size(); ++i) {
    if (i % 50 == 0) bytes.push_back(0);
    bytes.back() += static_cast<std::uint64_t>(report.windows[i].bytes_moved);
  }
  return bytes;
}

TEST(CyclicReader, LosesWithWrongUsesUntilItsPaceIsLookedAt) {
  CyclicReader reader;
  const double still = reader.run("static", ToldUses::exact, true).seconds();
  // True uses, and those of launches whose pointers show where each weight begins, move next to
  // nothing.
  for (const ToldUses told : {ToldUses::exact, ToldUses::launches}) {
    const ReplayReport report = reader.run("auto", told, false);
    EXPECT_LT(report.seconds(), 1.01 * still);
    EXPECT_LT(report.moves, 20u);
  }
  const ReplayReport loses = reader.run("auto", ToldUses::base_pointers, false);
  EXPECT_GT(loses.seconds(), 1.05 * still);
  EXPECT_GT(loses.moves, 1'000u);
  const ReplayReport stops = reader.run("auto", ToldUses::base_pointers, true);
  EXPECT_GT(stops.pace_stops, 0u);
  EXPECT_LT(stops.seconds(), 1.02 * still);
  EXPECT_LT(stops.moves, loses.moves / 2);
  // Behind the first verdict, only trials move.
  const std::vector<std::uint64_t> before = moved(loses), after = moved(stops);
  ASSERT_GE(after.size(), 5u);
  EXPECT_EQ(after.back(), 0u);
  EXPECT_GT(before[before.size() - 2], 0u);
}

// Chunks of a kernel that runs move in its middle, and the stop takes 4 ms more than its switch.
TEST(Suspension, StopsKernelsInTheirMiddle) {
  for (const bool suspends : {false, true}) {
    ReplayRig rig;
    ReplayMachine machine = rig.machine();
    machine.suspension = milliseconds(4);
    rig.options.scheduler.planner.stall_share = 0;
    stop_by(suspends ? StopKind::suspension : StopKind::gate, machine, rig.options);
    EXPECT_EQ(machine.suspension.has_value(), suspends);
    ListedTrace trace;
    trace.alloc(start, 1, 100, on_1).alloc(start, 2, 900, on_0);
    trace.access(start, 1, 100, on_1).access(start, 2, 900, on_0);
    trace.last().passes = 40;  // 9 s.
    const auto tell = [](const Snapshot& snapshot, Plan& plan) {
      if (snapshot.now() == seconds(1)) plan.move(ChunkId{0}, PlaceId{0}, 1, "told to");
    };
    const ReplayReport report =
        Replay(machine, rig.options, std::make_unique<ToldPolicy>(tell), make_router(rig.router))
            .run(trace);
    EXPECT_EQ(report.moves, 1u);
    EXPECT_EQ(report.stall, suspends ? milliseconds(4) : milliseconds(0));
    // The copy takes 25 ms of HBM. A gate comes to be at the kernel's end, a suspension at once.
    EXPECT_NEAR(report.seconds(), suspends ? 9.029 : 9.025, 1e-4);
    EXPECT_EQ(report.devices[0].stopped, suspends ? milliseconds(4) : milliseconds(0));
  }
  ReplayRig rig;
  ReplayMachine machine = rig.machine();
  EXPECT_THROW(stop_by(StopKind::suspension, machine, rig.options), Error);
}

// As in the runtime: what the suspension itself leaves of a max_stall is for their switches.
TEST(Suspension, IsSharedByChunksAsFarAsItsLimitAllows) {
  for (const milliseconds max_stall : {milliseconds(5), milliseconds(4)}) {
    ReplayRig rig;
    ReplayMachine machine = rig.machine();
    machine.suspension = milliseconds(4);
    rig.options.scheduler.planner.stall_share = 0;
    stop_by(StopKind::suspension, machine, rig.options);
    rig.options.max_stall = max_stall;
    ListedTrace trace;
    trace.alloc(start, 1, 200, on_1).access(start, 1, 200, on_1).access(seconds(9), 1, 200, on_1);
    const auto tell = [](const Snapshot& snapshot, Plan& plan) {
      if (snapshot.now() != seconds(1)) return;
      for (const ChunkId chunk : {ChunkId{0}, ChunkId{1}})
        plan.move(chunk, PlaceId{0}, 1, "told to");
    };
    const ReplayReport report =
        Replay(machine, rig.options, std::make_unique<ToldPolicy>(tell), make_router(rig.router))
            .run(trace);
    EXPECT_EQ(report.moves, 2u);
    EXPECT_EQ(report.stall, max_stall == milliseconds(5) ? milliseconds(4) : milliseconds(8));
  }
}

// 20 channels on each of two H200, whose figures docs/results/suspension.md measured.
TEST(Suspension, TakesWhatTheMachineFileSays) {
  const double us = 460 + 80 + 20 * (23 + 18.5);
  EXPECT_EQ(replay_machine(load_machine("h200x1")).suspension,
            Time(static_cast<Time::rep>(1e3 * us)));
  EXPECT_EQ(replay_machine(load_machine("h200x2")).suspension,
            Time(static_cast<Time::rep>(2e3 * us)));
}

}  // namespace
}  // namespace vma
