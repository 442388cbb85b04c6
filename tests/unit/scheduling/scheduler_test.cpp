// Goal: memory used remotely moves to its user, nothing else moves, and the program continues
// whatever a policy does. Method: the public interface on simulated machines, stepped by hand.

#include "scheduling/scheduler_loop.hpp"
#include "unit/memory/memory_rig.hpp"
#include "unit/runtime/runtime_rig.hpp"
#include "unit/runtime/scheduler_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <thread>

namespace vma {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

bool says(const std::vector<std::string>& lines, const std::string& text) {
  return std::ranges::any_of(
      lines, [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

TEST(Scheduler, BringsAChunkToWhoUsesIt) {
  SchedulerRig rig("counter");
  std::uint64_t* words = rig.alloc(3, gpu(0));
  rig.use(words, 1, 1);
  rig.pass(seconds(2));
  rig.step();
  EXPECT_EQ(rig.place(words, 0), gpu(0));
  EXPECT_EQ(rig.place(words, 1), gpu(1));
  EXPECT_EQ(rig.place(words, 2), gpu(0));
  const SchedulerStats stats = rig.runtime().scheduler_stats();
  EXPECT_EQ(stats.uses, 1u);
  EXPECT_EQ(stats.moves_started, 1u);
  EXPECT_EQ(stats.moves_done, 1u);
  EXPECT_TRUE(says(rig.runtime().explain(words + 1024), "moved from gpu(0) to gpu(1)"));
  const auto allocation = parts_of(rig.runtime()).machinery->memory.require(words, "test");
  EXPECT_EQ(allocation->wanted(1), gpu(0)) << "where the program put it";
  const Address behind{to_integer(allocation->begin()) + allocation->size_bytes()};
  const Scheduler& scheduler = parts_of(rig.runtime()).machinery->scheduling->scheduler();
  EXPECT_TRUE(says(scheduler.explain(behind), "does not know"));
}

TEST(Scheduler, MovesNeighboursInOneMigration) {
  SchedulerRig rig("counter");
  std::uint64_t* words = rig.alloc(4, gpu(0));
  for (std::uint64_t chunk = 0; chunk < 4; ++chunk) rig.use(words, chunk, 1);
  const std::size_t before = rig.runtime().stats().migrations;
  rig.step();
  for (std::uint64_t chunk = 0; chunk < 4; ++chunk) EXPECT_EQ(rig.place(words, chunk), gpu(1));
  EXPECT_EQ(rig.runtime().scheduler_stats().moves_done, 4u);
  EXPECT_EQ(rig.runtime().stats().migrations, before + 1);
}

/// Brings what a GPU uses to it, and asks for a clean copy if it is told to.
struct Fetches : Policy {
  explicit Fetches(bool copies) : keeps_copies(copies) {}
  void on_use(const UseEvent& use, const Snapshot& snapshot, Plan& plan) override {
    if (snapshot.chunk(use.chunk).at != use.device)
      plan.move(use.chunk, use.device, 1, "it is used there", keeps_copies);
  }
  const bool keeps_copies;
};

TEST(Scheduler, LeavesACleanCopyBehindWhereThePolicyAsksForIt) {
  for (const bool asks : {true, false}) {
    SCOPED_TRACE(asks);
    const std::size_t kept = asks ? 2 : 0;
    RuntimeOptions options;
    options.policies.push_back({"fetches", "a test", {}, [asks](const PolicyValues&) {
                                  return std::make_unique<Fetches>(asks);
                                }});
    SchedulerRig rig("fetches", "test-2", options);
    std::uint64_t* words = rig.alloc(2, host(0));
    const ReadOnly nobody_writes = rig.runtime().read_only(words);
    for (std::uint64_t chunk = 0; chunk < 2; ++chunk) rig.use(words, chunk, 0);
    rig.step();
    EXPECT_EQ(rig.place(words, 0), gpu(0));
    EXPECT_EQ(rig.place(words, 1), gpu(0));
    EXPECT_EQ(rig.runtime().stats().copies_kept, kept);
    EXPECT_EQ(rig.runtime().migrate(words, host(0)).bytes_remapped,
              kept * SchedulerRig::chunk_bytes);
  }
}

TEST(Scheduler, NeedsNoAttachedStreams) {
  SchedulerRig rig("counter");
  rig.detach_all();
  std::uint64_t* words = rig.alloc(1, gpu(0));
  rig.use(words, 0, 1);
  rig.step();
  rig.use(words, 0, 1);
  rig.step();
  EXPECT_EQ(rig.place(words), gpu(1));
}

TEST(Scheduler, LeavesWhatIsPinned) {
  SchedulerRig rig("counter");
  std::uint64_t* words = rig.alloc(1, gpu(0));
  {
    const Pin pin = rig.runtime().pin(words);
    rig.use(words, 0, 1);
    rig.step();
    EXPECT_EQ(rig.place(words), gpu(0));
    EXPECT_TRUE(says(rig.runtime().explain(words), "cannot move"));
  }
  rig.use(words, 0, 1);
  rig.step();
  EXPECT_EQ(rig.place(words), gpu(1));
}

TEST(Scheduler, CountsUsesOfFreedMemory) {
  SchedulerRig rig("counter");
  std::uint64_t* words = rig.alloc(1, gpu(0));
  rig.runtime().free(words);
  rig.use(words, 0, 1);
  rig.step();
  EXPECT_EQ(rig.runtime().scheduler_stats().uses_unknown, 1u);
  EXPECT_EQ(rig.runtime().scheduler_stats().chunks, 0u);
}

TEST(Scheduler, CountsUsesBehindMemory) {
  SchedulerRig rig("counter");
  std::uint64_t* words = rig.alloc(1, gpu(0));
  rig.use(words, 1, 1);
  rig.step();
  EXPECT_EQ(rig.runtime().scheduler_stats().uses_unknown, 1u);
  EXPECT_EQ(rig.place(words), gpu(0));
}

TEST(Scheduler, MissesNoUseOfMemoryThatIsAllocatedWhileItTakesUses) {
  SchedulerRig rig("counter");
  constexpr std::size_t count = 400;
  std::vector<std::uint64_t*> made;
  std::atomic<bool> done = false;
  {
    const std::jthread program([&] {
      while (made.size() < count) {
        made.push_back(rig.alloc(1, gpu(0)));
        rig.use(made.back(), 0, 1);
      }
      done = true;
    });
    while (!done) rig.scheduler().collect();
  }
  rig.step();
  for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(rig.place(made[i]), gpu(1)) << i;
}

TEST(Scheduler, FollowsAllocationsThatComeAndGo) {
  SchedulerRig rig("cost_benefit");
  for (int round = 0; round < 20; ++round) {
    std::uint64_t* first = rig.alloc(2, gpu(0));
    std::uint64_t* second = rig.alloc(3, gpu(1));
    rig.use(first, 0, 1);
    rig.runtime().free(first);
    rig.use(second, 2, 0);
    rig.step();
    EXPECT_EQ(rig.runtime().scheduler_stats().chunks, 3u);
    rig.runtime().free(second);
    rig.step();
    EXPECT_EQ(rig.runtime().scheduler_stats().chunks, 0u);
  }
}

TEST(Scheduler, SeesWhatTheProgramMovesItself) {
  SchedulerRig rig("counter");
  std::uint64_t* words = rig.alloc(1, gpu(0));
  rig.step();
  rig.runtime().migrate(words, gpu(1));
  rig.step();
  EXPECT_TRUE(says(rig.runtime().explain(words), "at gpu(1), moved 1 time"));
}

// The duration of a move enters the next prediction with a weight of 1/16.
TEST(Scheduler, ForetellsByWhatMovesTook) {
  SchedulerRig rig("counter");
  std::uint64_t* words = rig.alloc(1, gpu(0));
  for (int round = 0; round < 2; ++round) {
    if (round > 0) rig.runtime().migrate(words, gpu(0));
    rig.step();  // Notices the migration.
    rig.pass(seconds(10));
    rig.use(words, 0, 1);
    rig.step();
    ASSERT_EQ(rig.place(words), gpu(1));
  }
  std::vector<double> foretold, took;
  for (const Decision& decision : rig.scheduler().decisions_about(address_of(words), 0)) {
    if (decision.predicted)
      foretold.push_back(static_cast<double>(decision.predicted->move.count()));
    if (decision.kind == DecisionKind::moved)
      took.push_back(static_cast<double>(decision.happened->move.count()));
  }
  ASSERT_EQ(foretold.size(), 2u);
  const double ratio = std::clamp(took[0] / foretold[0], 0.5, 2.0);
  ASSERT_NE(ratio, 1) << "then this test shows nothing";
  EXPECT_NEAR(foretold[1] / foretold[0], 1 + (ratio - 1) / 16, 1e-3);
}

TEST(Scheduler, DecidesAndMovesNothingInADryRun) {
  RuntimeOptions options;
  options.dry_run = true;
  SchedulerRig rig("counter", "test-2", options);
  std::uint64_t* words = rig.alloc(1, gpu(0));
  rig.use(words, 0, 1);
  rig.step();
  EXPECT_EQ(rig.place(words), gpu(0));
  EXPECT_TRUE(says(rig.runtime().explain(words), "planned from gpu(0) to gpu(1)"));
  EXPECT_TRUE(says(rig.runtime().explain(words), "dry run"));
}

TEST(Scheduler, DecidesNothingWhilePausedButWhenStepped) {
  SchedulerRig rig("counter");
  std::uint64_t* words = rig.alloc(1, gpu(0));
  rig.runtime().pause_scheduler();
  rig.use(words, 0, 1);
  rig.scheduler().collect();
  rig.scheduler().tick();
  EXPECT_EQ(rig.runtime().scheduler_stats().moves_wanted, 0u);
  rig.use(words, 0, 1);
  rig.step();
  EXPECT_EQ(rig.place(words), gpu(1));
  EXPECT_TRUE(rig.runtime().scheduler_stats().paused);
  rig.runtime().resume_scheduler();
  EXPECT_FALSE(rig.runtime().scheduler_stats().paused);
}

TEST(Scheduler, HintsAreUsesToCome) {
  SchedulerRig rig("cost_benefit");
  std::uint64_t* words = rig.alloc(2, gpu(0));
  Hint hint;
  hint.device = gpu(1);
  hint.passes = 1e9;
  rig.runtime().advise(words, SchedulerRig::chunk_bytes, hint);
  rig.step();
  EXPECT_EQ(rig.place(words, 0), gpu(1));
  EXPECT_EQ(rig.place(words, 1), gpu(0));
  EXPECT_EQ(rig.runtime().scheduler_stats().hints, 1u);
}

TEST(Scheduler, AnotherPolicyTakesOver) {
  SchedulerRig rig("stay_put");
  std::uint64_t* words = rig.alloc(1, gpu(0));
  rig.use(words, 0, 1);
  rig.step();
  EXPECT_EQ(rig.place(words), gpu(0));
  rig.runtime().set_policy("counter:theta=1");
  EXPECT_EQ(rig.runtime().policy(), "counter:theta=1");
  rig.use(words, 0, 1);
  rig.step();
  EXPECT_EQ(rig.place(words), gpu(1));
}

TEST(Scheduler, UnknownPoliciesAreRefusedWithAListOfTheKnown) {
  SchedulerRig rig("stay_put");
  EXPECT_EQ(kind_of_error([&] { rig.runtime().set_policy("best"); }), ErrorKind::invalid_argument);
  EXPECT_NE(error_text([&] { rig.runtime().set_policy("best"); }).find("cost_benefit"),
            std::string::npos);
  EXPECT_NE(error_text([&] { rig.runtime().set_policy("counter:tehta=1"); }).find("theta"),
            std::string::npos);
  EXPECT_EQ(rig.runtime().policy(), "stay_put");
  EXPECT_EQ(kind_of_error([] { SchedulerRig("best"); }), ErrorKind::invalid_argument);
}

TEST(Scheduler, WithoutAPolicyThereIsNone) {
  RuntimeRig rig("test-2");
  EXPECT_FALSE(rig.runtime().scheduler_stats().running);
  EXPECT_EQ(kind_of_error([&] { rig.runtime().step_scheduler(); }), ErrorKind::unsupported);
  EXPECT_EQ(kind_of_error([&] { rig.runtime().drain(gpu(0)); }), ErrorKind::unsupported);
}

// --- Room

RuntimeOptions two_chunks_on_gpu_0() {
  RuntimeOptions options;
  // In addition to keepers and the memory for live copies.
  options.capacity_bytes[gpu(0)] = 1 << 20;
  options.cache_bytes_per_gpu = 0;
  return options;
}

TEST(Scheduler, AnAllocationThatDoesNotFitPushesOutWhatIsCold) {
  SchedulerRig rig("cost_benefit", "test-2", two_chunks_on_gpu_0());
  std::vector<std::uint64_t*> held;
  std::uint64_t* hot = rig.alloc(8, gpu(0), "hot");
  for (int i = 0; i < 16; ++i) {
    for (std::uint64_t chunk = 0; chunk < 8; ++chunk) rig.use(hot, chunk, 0);
    rig.step();
    rig.pass(milliseconds(10));
    held.push_back(rig.alloc(8, gpu(0), "cold"));
  }
  EXPECT_EQ(rig.place(held.back()), gpu(0)) << "it came where it was asked for";
  for (std::uint64_t chunk = 0; chunk < 8; ++chunk) EXPECT_EQ(rig.place(hot, chunk), gpu(0));
  const auto away = std::ranges::count_if(
      held, [&](const std::uint64_t* words) { return rig.place(words) != gpu(0); });
  EXPECT_GT(away, 0);
}

TEST(Scheduler, AllocGoesWhereThereIsRoom) {
  SchedulerRig rig("static", "test-2", two_chunks_on_gpu_0());
  AllocOptions options;
  options.chunk_bytes = SchedulerRig::chunk_bytes;
  std::set<Place> places;
  for (int i = 0; i < 40; ++i) {
    void* words = rig.runtime().alloc(8 * SchedulerRig::chunk_bytes, options);
    for (const Extent& extent : rig.runtime().where(words)) places.insert(extent.at);
  }
  EXPECT_TRUE(places.contains(gpu(0)));
  EXPECT_TRUE(places.contains(gpu(1)));
}

TEST(Scheduler, DrainsAPlaceAndFillsItAgain) {
  SchedulerRig rig("counter");
  std::uint64_t* words = rig.alloc(5, gpu(1));
  std::uint64_t* pinned = rig.alloc(1, gpu(1));
  {
    const Pin pin = rig.runtime().pin(pinned);
    const DrainReport report = rig.runtime().drain(gpu(1), {milliseconds::max()});
    EXPECT_EQ(report.bytes_moved, 5 * SchedulerRig::chunk_bytes);
    EXPECT_EQ(report.bytes_left, SchedulerRig::chunk_bytes);
    EXPECT_EQ(report.left.at("pinned"), 1u);
    EXPECT_EQ(rig.place(words), gpu(0));
    rig.use(words, 0, 1);
    rig.pass(seconds(2));
    rig.step();
    EXPECT_EQ(rig.place(words), gpu(0)) << "nothing comes to a place that is being drained";
  }
  rig.runtime().refill(gpu(1));
  rig.use(words, 0, 1);
  rig.pass(seconds(2));
  rig.step();
  EXPECT_EQ(rig.place(words), gpu(1));
}

TEST(Scheduler, WaitsForWhatHasJustComeToAPlaceThatIsDrained) {
  SchedulerRig rig("counter");
  std::uint64_t* words = rig.alloc(1, gpu(0));
  rig.use(words, 0, 1);
  rig.step();
  ASSERT_EQ(rig.place(words), gpu(1));
  const DrainReport report = rig.runtime().drain(gpu(1), {milliseconds(60'000)});
  EXPECT_EQ(report.bytes_left, 0u);
  EXPECT_EQ(rig.place(words), gpu(0));
}

TEST(Scheduler, LeavesWhatIsParked) {
  SchedulerRig rig("counter");
  std::uint64_t* words = rig.alloc(1, gpu(0), "away");
  rig.step();
  rig.runtime().park("away");
  EXPECT_EQ(rig.place(words), host(0));
  rig.use(words, 0, 1);
  rig.pass(seconds(2));
  rig.step();
  EXPECT_EQ(rig.place(words), host(0));
  EXPECT_TRUE(says(rig.runtime().explain(words), "it is parked"));
  rig.runtime().resume("away");
  EXPECT_EQ(rig.place(words), gpu(0));
  rig.use(words, 0, 1);
  rig.pass(seconds(2));
  rig.step();
  EXPECT_EQ(rig.place(words), gpu(1));
}

TEST(Scheduler, PlacesAreAsMovesOfTheProgramLeftThemBeforeTheNextTick) {
  SchedulerRig rig("stay_put");
  std::uint64_t* words = rig.alloc(2, gpu(0), "here");
  rig.step();
  const std::uint64_t here = rig.scheduler().places()[0].used_bytes;
  rig.runtime().migrate(words, gpu(1));
  EXPECT_EQ(rig.scheduler().places()[0].used_bytes, here - 2 * SchedulerRig::chunk_bytes);
}

TEST(Scheduler, WhatIsDroppedFillsNoPlaceAndIsMovedByNobody) {
  SchedulerRig rig("counter");
  std::uint64_t* words = rig.alloc(2, gpu(0), "away");
  rig.step();
  const auto used = [&] { return rig.scheduler().places()[0].used_bytes; };
  const std::uint64_t before = used();
  ParkOptions options;
  options.contents = ParkContents::drop;
  rig.runtime().park("away", options);
  rig.use(words, 0, 1);
  rig.pass(seconds(2));
  rig.step();
  EXPECT_EQ(used(), before - 2 * SchedulerRig::chunk_bytes);
  EXPECT_EQ(rig.runtime().scheduler_stats().moves_wanted, 0u);
  EXPECT_TRUE(says(rig.runtime().explain(words), "its contents were dropped"));
  EXPECT_EQ(rig.runtime().drain(gpu(0), {milliseconds(60'000)}).bytes_left, 0u)
      << "there is nothing to drain";
  rig.runtime().refill(gpu(0));
  rig.runtime().resume("away");
  rig.step();
  EXPECT_EQ(used(), before);
  rig.use(words, 0, 1);
  rig.pass(seconds(2));
  rig.step();
  EXPECT_EQ(rig.place(words), gpu(1)) << "it is as any other again";
}

TEST(Scheduler, HintsOfWhatIsDroppedAreNotTaken) {
  SchedulerRig rig("cost_benefit");
  std::uint64_t* words = rig.alloc(2, gpu(0), "away");
  ParkOptions options;
  options.contents = ParkContents::drop;
  rig.runtime().park("away", options);
  Hint hint;
  hint.device = gpu(1);
  hint.passes = 1e9;
  rig.runtime().advise(words, SchedulerRig::chunk_bytes, hint);
  rig.step();
  EXPECT_EQ(rig.runtime().scheduler_stats().hints, 1u);
  EXPECT_EQ(rig.runtime().scheduler_stats().moves_wanted, 0u);
}

TEST(Scheduler, TakesHintsOfAllTimes) {
  SchedulerRig rig("cost_benefit");
  std::uint64_t* words = rig.alloc(1, gpu(0));
  Hint hint;
  hint.device = gpu(1);
  hint.next_use = hint.until = std::chrono::nanoseconds::max();
  rig.pass(seconds(1));
  rig.runtime().advise(words, SchedulerRig::chunk_bytes, hint);
  rig.step(3);
  EXPECT_EQ(rig.place(words), gpu(0));
}

// --- The loop

TEST(Scheduler, DoesAllThisByItself) {
  RuntimeOptions options;
  options.policy = "counter";
  options.gate_limit = seconds(1);
  RuntimeRig rig("test-2", options);
  const AttachedStream first(rig.runtime(), rig.stream(0)), second(rig.runtime(), rig.stream(1));
  std::uint64_t* words = rig.alloc(8192, gpu(0));
  rig.write(words, 1024, 3);
  EXPECT_TRUE(comes_true([&] {
    const Use use{words, 8192, gpu(1), UseKind::read, 1e9F};
    rig.runtime().record_uses(std::span(&use, 1));
    return rig.place(words) == gpu(1);
  }));
  EXPECT_EQ(rig.wrong(words, 1024, 3), 0u);
  EXPECT_TRUE(comes_true([&] { return rig.runtime().scheduler_stats().ticks > 0; }));
}

TEST(Scheduler, ALoopGoesOnAfterAnExceptionOnItsThread) {
  SchedulerRig rig("stay_put");
  SchedulerLoop loop(rig.machine(), rig.scheduler(), milliseconds(1), milliseconds(1));
  std::atomic<int> drains{0};
  loop.start([&] {
    if (++drains % 2 == 0) throw std::bad_alloc();
  });
  EXPECT_TRUE(comes_true([&] { return drains > 6; }));
  const std::uint64_t ticks = rig.runtime().scheduler_stats().ticks;
  EXPECT_TRUE(comes_true([&] { return rig.runtime().scheduler_stats().ticks > ticks; }));
  loop.stop();
}

}  // namespace
}  // namespace vma
