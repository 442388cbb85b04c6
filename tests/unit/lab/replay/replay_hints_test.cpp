// Goal: a replay gives hints when and to whom a program would: in an open loop at their time, in a
// closed loop with the progress of their task. Method: cases computed by hand, and a policy that
// writes down the hints. HBM serves 4000 bytes per second, a peer 400, the host 50.

#include "unit/lab/replay/replay_rig.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Told = std::vector<std::string>;

class Hears : public Policy {
 public:
  explicit Hears(std::shared_ptr<Told> told) : told_(std::move(told)) {}
  void on_use(const UseEvent& use, const Snapshot& snapshot, Plan&) override {
    if (use.hint == nullptr) return;
    const auto in = [](const std::optional<Time>& at) { return at ? at->count() / 1'000'000 : -1; };
    told_->push_back(fmt::format("{} ms: {} of chunk {} by {} at {} until {}",
                                 snapshot.now().count() / 1'000'000, use.hint->passes,
                                 index(use.chunk), index(use.device), in(use.hint->next_use),
                                 in(use.hint->until)));
    EXPECT_EQ(use.hint->device, gpu(index(use.device)));
    EXPECT_EQ(use.bytes(), 0);
  }

 private:
  const std::shared_ptr<Told> told_;
};

Hint hint_of_use(std::optional<Time> next_use, double passes = 1) {
  Hint hint;
  hint.next_use = next_use;
  hint.passes = passes;
  return hint;
}

struct HintsRig : ReplayRig {
  ReplayReport hear(ListedTrace& trace) { return run(trace, std::make_unique<Hears>(told)); }
  const std::shared_ptr<Told> told = std::make_shared<Told>();
};

TEST(ReplayHints, AreGivenAtTheirTimeForEachChunkOfTheirRange) {
  HintsRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 350, on_host).access(start, 1, 100, on_0);
  Hint hint = hint_of_use(milliseconds(200), 3);
  hint.until = milliseconds(500);
  trace.hint(seconds(5), 1, 150, hint, on_1);
  trace.last().offset = 150;
  trace.hint(seconds(6), 1, 350, hint_of_use({}, 0), TracePlace(gpu(2)));
  trace.access(seconds(7), 1, 100, on_0);
  const ReplayReport report = rig.hear(trace);
  EXPECT_EQ(*rig.told, (Told{"5000 ms: 3 of chunk 1 by 1 at 5200 until 5500",
                             "5000 ms: 3 of chunk 2 by 1 at 5200 until 5500",
                             "6000 ms: 0 of chunk 0 by 0 at -1 until -1",
                             "6000 ms: 0 of chunk 1 by 0 at -1 until -1",
                             "6000 ms: 0 of chunk 2 by 0 at -1 until -1",
                             "6000 ms: 0 of chunk 3 by 0 at -1 until -1"}))
      << "GPU 2 is GPU 0 of a machine that has two";
  EXPECT_EQ(report.hints, 2u);
  EXPECT_EQ(report.hints_lost, 0u);
}

// The first task takes 8 s at the host. The second repeats ten steps of 100 ms, and gives its hint
// once; the one for GPU 0 replaces it at once.
TEST(ReplayHints, ComeWithTheProgressOfTheirTask) {
  HintsRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 400, on_host).alloc(start, 2, 100, on_1);
  trace.task(start, 1, Time(0), {}, 1, on_0).access(start, 1, 400).of_task(1);
  trace.task(start, 2, milliseconds(100), {1}, 10, on_1);
  trace.hint(start, 2, 100, hint_of_use(Time(0), 10)).of_task(2);
  trace.access(start, 2, 100).of_task(2);
  trace.hint(start, 2, 100, hint_of_use(seconds(1)), on_0).of_task(2);
  trace.hint(start, 1, 100, hint_of_use(seconds(2), 7)).of_task(2);
  trace.last().at_end = true;
  trace.hint(start, 1, 100, hint_of_use(seconds(3), 8)).of_task(1);
  trace.last().at_end = true;
  trace.task(start, 3, seconds(1), {2}, 1, on_0);
  const ReplayReport report = rig.hear(trace);
  EXPECT_EQ(*rig.told, (Told{"8000 ms: 8 of chunk 0 by 0 at 11000 until -1",
                             "8000 ms: 1 of chunk 4 by 0 at 9000 until -1",
                             "9000 ms: 7 of chunk 0 by 1 at 11000 until -1"}));
  EXPECT_EQ(report.hints, 4u);
}

TEST(ReplayHints, OfMemoryThatIsNotThereAreLostAndCounted) {
  HintsRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_0).alloc(start, 2, 100).alloc(start, 3, 100, on_0);
  trace.hint(start, 2, 100, hint_of_use({}), on_0);  // It has no place before its first access.
  trace.task(start, 1, seconds(1), {}, 1, on_0).access(start, 3, 100).of_task(1);
  trace.task(start, 2, seconds(1), {1}, 1, on_0);
  trace.hint(start, 1, 100, hint_of_use({})).of_task(2);  // It was freed a second ago.
  trace.free(milliseconds(1), 1);
  const ReplayReport report = rig.hear(trace);
  EXPECT_EQ(*rig.told, Told{});
  EXPECT_EQ(report.hints, 2u);
  EXPECT_EQ(report.hints_lost, 2u);
}

TEST(ReplayHints, OfTasksThatDoNotExistAreRefused) {
  HintsRig rig;
  ListedTrace trace;
  trace.alloc(start, 1, 100, on_0).hint(start, 1, 100, hint_of_use({}), on_0).of_task(3);
  EXPECT_THROW(rig.hear(trace), Error);
}

// 800 passes over 100 bytes at the host take 1600 s, and a move 2 s: whoever knows of them moves.
TEST(ReplayHints, LetAPolicyMoveMemoryBeforeItsUse) {
  double seconds_of[2];
  for (const bool hints : {false, true}) {
    ReplayRig rig;
    ListedTrace trace;
    trace.alloc(start, 1, 100, on_host).alloc(start, 2, 100, on_0);
    trace.task(start, 1, seconds(20), {}, 1, on_0).access(start, 2, 100).of_task(1);
    if (hints) trace.hint(start, 1, 100, hint_of_use(seconds(20), 800)).of_task(1);
    trace.task(start, 2, Time(0), {1}, 1, on_0).access(start, 1, 100).of_task(2);
    trace.last().passes = 800;
    seconds_of[hints ? 1 : 0] = rig.run(trace, "cost_benefit:horizon=30s").seconds();
  }
  EXPECT_GE(seconds_of[0], 20 + 1600);
  EXPECT_NEAR(seconds_of[1], 20 + 20, 1);
}

}  // namespace
}  // namespace vma
