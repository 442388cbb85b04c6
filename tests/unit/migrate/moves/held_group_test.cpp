// Goal: several ranges move under one hold, side by side on all routes; each succeeds or fails for
// itself, and what concerns the hold ends all of them. Method: a simulated machine that counts,
// traces and fails calls.
#include "base/executor.hpp"
#include "support/stepped_executor.hpp"
#include "unit/migrate/moves/move_rig.hpp"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;

ErrorKind kind_of(const RangeResult& result) {
  EXPECT_TRUE(result.error.has_value());
  return result.error ? result.error->kind() : ErrorKind::no_driver;
}

void expect_books(MoveRig& rig) {
  rig.memory().chunks().slow_calls().await_empty();
  rig.memory().check_invariants();
}

TEST(HeldGroup, HoldsEveryContextOnceForAllAllocationsAndRoutes) {
  MoveRig rig("test-4");
  const auto one = rig.filled(8, gpu(0), 2, 1), two = rig.filled(6, gpu(1), 2, 1'000'000),
             three = rig.filled(5, host(0), 2, 2'000'000);
  rig.forget_calls();
  const auto results =
      rig.move_all({whole(one, gpu(2)), whole(two, host(0)), whole(three, gpu(3))});
  EXPECT_EQ(rig.calls(Call::hold_context), 4);
  EXPECT_EQ(rig.calls(Call::record_context), 4 + 4) << "for the backlog, and for the hold";
  const std::vector<std::string> routes{"gpu(0)->gpu(2)", "gpu(1)->host(0)", "host(0)->gpu(3)"};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_FALSE(results[i].error);
    EXPECT_EQ(results[i].report.outcome, Outcome::done);
    EXPECT_EQ(results[i].report.route, routes[i]);
    EXPECT_EQ(results[i].report.stall.count, 1u);
    EXPECT_EQ(results[i].report.chunks_moved, results[i].report.chunks);
    EXPECT_EQ(results[i].report.bytes_moved, results[i].report.bytes_asked);
  }
  const MigrationReport& total = results[3].report;
  EXPECT_EQ(total.outcome, Outcome::done);
  EXPECT_EQ(total.stall.count, 1u) << "one stop, however many ranges it served";
  EXPECT_EQ(total.stall.max, results[0].report.stall.max);
  EXPECT_EQ(total.chunks_moved, 4 + 3 + 3);
  EXPECT_EQ(total.bytes_moved, 19 * page_bytes);
  EXPECT_EQ(total.route, "gpu(0)->gpu(2), gpu(1)->host(0), host(0)->gpu(3)");
  EXPECT_GE(total.wall, total.stall.max);
  EXPECT_EQ(rig.migrator().migrations(), 3u);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(rig.wrong_for(i, *one, 1), 0u);
    EXPECT_EQ(rig.wrong_for(i, *two, 1'000'000), 0u);
    EXPECT_EQ(rig.wrong_for(i, *three, 2'000'000), 0u);
  }
  expect_books(rig);
}

TEST(HeldGroup, StopsNothingIfAllIsThere) {
  MoveRig rig;
  const auto one = rig.filled(4, gpu(0), 2, 1), two = rig.filled(4, gpu(1), 2, 9);
  rig.forget_calls();
  const auto results = rig.move_all({whole(one, gpu(0)), whole(two, gpu(1))});
  EXPECT_TRUE(rig.trace().empty());
  EXPECT_EQ(results[2].report.outcome, Outcome::done);
  EXPECT_EQ(results[2].report.stall.count, 0u);
  EXPECT_TRUE(rig.move_all({}).back().report.outcome == Outcome::done);
}

/// The number of chunks of `which` that switched before its first one and before its last one did.
std::pair<std::size_t, std::size_t> switched_before(const std::vector<ChunkStep>& steps,
                                                    const Allocation& which) {
  std::vector<std::pair<TimePoint, bool>> order;
  for (const ChunkStep& step : steps) {
    if (step.kind != ChunkStep::Kind::moved) continue;
    const bool of_it = step.address >= which.begin() &&
                       to_integer(step.address) < to_integer(which.begin()) + which.size_bytes();
    order.emplace_back(step.switched, of_it);
  }
  std::ranges::sort(order);
  const auto of_it = [](const auto& one) { return one.second; };
  const auto first = std::ranges::find_if(order, of_it);
  const auto behind = std::find_if(order.rbegin(), order.rend(), of_it).base();
  return {static_cast<std::size_t>(first - order.begin()),
          static_cast<std::size_t>(behind - order.begin()) - 1};
}

// Each route gets through its bytes at an equal rate: none waits until another one has ended.
TEST(HeldGroup, RoutesAreCopiedSideBySide) {
  MoveRig rig("h200x2");
  const auto many = rig.alloc(16, gpu(0), 1), few = rig.alloc(2, gpu(1), 1);
  std::vector<ChunkStep> steps;
  rig.migrator().watch_chunks([&](const ChunkStep& step) { steps.push_back(step); });
  rig.move_all({whole(many, gpu(1)), whole(few, gpu(0))});
  rig.migrator().watch_chunks({});
  const auto [before_first, before_last] = switched_before(steps, *few);
  EXPECT_GT(before_first, 4u);
  EXPECT_LT(before_first, 12u) << "half of the sixteen go before the first of two";
  EXPECT_GT(before_last, 12u);
  EXPECT_EQ(std::ranges::count(steps, ChunkStep::Kind::stopped, &ChunkStep::kind), 1);
}

TEST(HeldGroup, PartsOfOneAllocationGoToDifferentPlaces) {
  MoveRig rig;
  const auto words = rig.filled(8, gpu(0), 2, 1);
  rig.forget_calls();
  const auto results = rig.move_all({{words, {0, 1}, gpu(1)}, {words, {2, 4}, host(0)}});
  EXPECT_EQ(rig.calls(Call::hold_context), 2);
  EXPECT_EQ(results[0].report.offset, 0u);
  EXPECT_EQ(results[1].report.offset, 4 * page_bytes);
  EXPECT_EQ(results[1].report.chunks_moved, 2);
  EXPECT_EQ(words->place(0), gpu(1));
  EXPECT_EQ(words->place(1), gpu(0));
  EXPECT_EQ(words->place(2), host(0));
  EXPECT_EQ(words->place(3), host(0));
  EXPECT_EQ(rig.wrong(*words, 1), 0u);
}

TEST(HeldGroup, AChunkNamedTwiceMovesOnce) {
  MoveRig rig;
  const auto words = rig.filled(8, gpu(0), 2, 1);
  const auto results =
      rig.move_all({{words, {1, 3}, gpu(1)}, whole(words, gpu(1)), {words, {1, 3}, gpu(1)}});
  EXPECT_EQ(results[0].report.chunks_moved, 2);
  EXPECT_EQ(results[1].report.chunks_moved, 2);
  EXPECT_EQ(results[1].report.chunks, 4);
  EXPECT_EQ(results[2].report.chunks_moved, 0);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(results[i].report.outcome, Outcome::done);
  EXPECT_EQ(results[3].report.chunks_moved, 4);
  EXPECT_EQ(words->generation(1), 1u);
  EXPECT_EQ(rig.wrong(*words, 1), 0u);
}

TEST(HeldGroup, AChunkNamedTwiceFailsForBoth) {
  MoveRig rig;
  const auto words = rig.filled(4, gpu(0), 2, 1);
  rig.move(*words, gpu(1));
  rig.move(*words, gpu(0));
  rig.fail({Call::map}, {1, 2});  // Of the second slot, and once more; then the source is shown.
  const auto results = rig.move_all({whole(words, gpu(1)), {words, {1, 2}, gpu(1)}});
  rig.fail_nothing();
  EXPECT_EQ(results[0].report.outcome, Outcome::partly);
  EXPECT_EQ(results[1].report.outcome, Outcome::failed);
  ASSERT_TRUE(results[0].error && results[1].error);
  EXPECT_EQ(results[1].error->kind(), results[0].error->kind());
  EXPECT_EQ(results[2].report.outcome, Outcome::partly);
  EXPECT_EQ(rig.wrong(*words, 1), 0u);
}

/// With or without copies ahead of the hold.
void expect_failure_of_one(Call call, bool own_context) {
  MoveRig rig;
  if (own_context) rig.engine().own_context(DeviceId{0});
  const auto one = rig.filled(2, gpu(0), 2, 1), two = rig.filled(4, gpu(0), 2, 1'000'000),
             three = rig.filled(4, gpu(0), 2, 2'000'000);
  if (call != Call::create) {
    for (const auto& each : {one, two, three}) rig.move(*each, gpu(1));
    for (const auto& each : {one, two, three}) rig.move(*each, gpu(0));
  }
  // The first chunk of the second range: the first target of all is created before the stop. What
  // fails for lack of memory is tried once more.
  rig.fail({call}, call == Call::copy || call == Call::launch ? std::set{1} : std::set{1, 2});
  const auto results = rig.move_all({whole(one, gpu(1)), whole(two, gpu(1)), whole(three, gpu(1))});
  rig.fail_nothing();
  EXPECT_EQ(results[0].report.outcome, Outcome::done);
  EXPECT_EQ(results[1].report.outcome, Outcome::failed);
  EXPECT_EQ(results[1].report.chunks_moved, 0);
  ASSERT_EQ(results[1].report.failures.size(), 1u);
  EXPECT_EQ(results[1].report.failures[0].offset, 0u);
  ASSERT_TRUE(results[1].error);
  ASSERT_NE(results[1].error->report(), nullptr);
  EXPECT_EQ(results[1].error->report()->bytes_asked, 4 * page_bytes);
  EXPECT_EQ(results[2].report.outcome, Outcome::done);
  EXPECT_EQ(results[3].report.outcome, Outcome::partly);
  EXPECT_EQ(two->place(0), gpu(0));
  EXPECT_EQ(two->place(1), gpu(0));
  EXPECT_EQ(rig.wrong(*one, 1), 0u);
  EXPECT_EQ(rig.wrong(*two, 1'000'000), 0u);
  EXPECT_EQ(rig.wrong(*three, 2'000'000), 0u);
  const auto again = rig.move_all({whole(two, gpu(1))});
  EXPECT_EQ(again[0].report.outcome, Outcome::done);
  expect_books(rig);
}

TEST(HeldGroup, AFailureEndsOnlyItsOwnRange) {
  for (const bool own_context : {false, true}) {
    for (const Call call : {Call::map, Call::copy, Call::create}) {
      SCOPED_TRACE(fmt::format("{}, {}", to_string(call), own_context));
      expect_failure_of_one(call, own_context);
    }
  }
}

// Copies ahead of the hold wait on each route for what the program has submitted on all GPUs.
TEST(HeldGroup, NoRouteIsCopiedAheadOfEarlierWork) {
  MoveRig rig;
  const auto one = rig.filled(4, gpu(0), 2, 1), two = rig.filled(4, gpu(1), 2, 9);
  const BoundStream here = rig.new_stream(0), there = rig.new_stream(1);
  rig.forget_calls();
  rig.launch_spin(here, milliseconds(5));
  rig.launch_spin(there, milliseconds(10));
  const auto results = rig.move_all({whole(one, gpu(1)), whole(two, gpu(0))});
  EXPECT_EQ(results[2].report.outcome, Outcome::done);
  EXPECT_EQ(rig.calls(Call::create_own_context), 0);
  EXPECT_EQ(rig.calls(Call::stream_wait_event), 2 * 2) << "each route for each context";
  EXPECT_EQ(rig.wrong(*one, 1), 0u);
  EXPECT_EQ(rig.wrong(*two, 9), 0u);
}

// Each fits alone, but not both: found before anything is stopped, and the first one moves.
TEST(HeldGroup, CountsTheRoomThatTheOthersStillNeed) {
  MemoryLimits limits;
  limits.capacity_bytes[gpu(1)] = (2 + 9) * page_bytes;  // Two are the runtime's own.
  limits.cache_bytes_per_gpu = 0;
  MoveRig rig("test-2", limits);
  const auto one = rig.filled(6, gpu(0), 1, 1), two = rig.filled(6, gpu(0), 1, 1'000'000),
             three = rig.filled(3, gpu(0), 1, 2'000'000);
  rig.forget_calls();
  const auto results = rig.move_all({whole(one, gpu(1)), whole(two, gpu(1)), whole(three, gpu(1))});
  EXPECT_EQ(results[0].report.outcome, Outcome::done);
  EXPECT_EQ(kind_of(results[1]), ErrorKind::out_of_memory);
  EXPECT_EQ(results[1].report.chunks_moved, 0);
  EXPECT_EQ(results[1].report.stall.count, 0u) << "it was not part of the stop";
  EXPECT_EQ(results[2].report.outcome, Outcome::done);
  expect_books(rig);
}

TEST(HeldGroup, WhatMayNotMoveStaysBehind) {
  MoveRig rig;
  const auto one = rig.filled(2, gpu(0), 2, 1), pinned = rig.filled(2, gpu(0), 2, 9),
             freed = rig.filled(2, gpu(0), 2, 17);
  pinned->pin();
  freed->being_freed = true;
  const auto results =
      rig.move_all({whole(pinned, gpu(1)), whole(freed, gpu(1)), whole(one, gpu(1))});
  freed->being_freed = false;
  pinned->unpin();
  EXPECT_EQ(kind_of(results[0]), ErrorKind::pinned);
  EXPECT_EQ(results[0].report.bytes_asked, 2 * page_bytes);
  EXPECT_EQ(kind_of(results[1]), ErrorKind::cancelled);
  EXPECT_EQ(results[1].report.outcome, Outcome::cancelled);
  EXPECT_EQ(results[2].report.outcome, Outcome::done);
  EXPECT_EQ(pinned->place(0), gpu(0));
  EXPECT_EQ(one->place(0), gpu(1));
}

TEST(HeldGroup, WorkThatDoesNotEndLeavesAllInPlace) {
  MoveRig rig;
  const auto one = rig.filled(2, gpu(0), 2, 1), there = rig.filled(2, gpu(1), 2, 9),
             two = rig.filled(2, gpu(0), 2, 17);
  const BoundStream stream = rig.new_stream(1);
  rig.launch_spin(stream, std::chrono::hours(1));
  MigrateOptions options;
  options.deadline = milliseconds(80);
  const auto results =
      rig.move_all({whole(one, gpu(1)), whole(there, gpu(1)), whole(two, host(0))}, options);
  EXPECT_EQ(kind_of(results[0]), ErrorKind::busy);
  EXPECT_FALSE(results[1].error) << "nothing had to be stopped for it";
  EXPECT_EQ(kind_of(results[2]), ErrorKind::busy);
  EXPECT_EQ(results[3].report.outcome, Outcome::partly);
  EXPECT_EQ(one->place(0), gpu(0));
  EXPECT_EQ(two->place(0), gpu(0));
  rig.machine().wait_stream(stream, never);
  expect_books(rig);
}

TEST(HeldGroup, NothingIsHeldIfNothingRuns) {
  MoveRig rig;
  const auto one = rig.filled(4, gpu(0), 2, 1), two = rig.filled(4, gpu(1), 2, 9);
  MigrateOptions options;
  options.nothing_runs = true;
  rig.forget_calls();
  const auto results = rig.move_all({whole(one, gpu(1)), whole(two, host(0))}, options);
  EXPECT_EQ(rig.calls(Call::hold_context) + rig.calls(Call::record_context), 0);
  EXPECT_EQ(results[2].report.outcome, Outcome::done);
  EXPECT_EQ(results[2].report.stall.count, 0u);
  EXPECT_EQ(rig.wrong(*one, 1), 0u);
  EXPECT_EQ(rig.wrong(*two, 9), 0u);
}

TEST(HeldGroup, HostMemoryIsMadeBeforeAnythingIsStopped) {
  MemoryLimits limits;
  limits.host_cache_bytes = 0;
  MoveRig rig("test-2", limits);
  const auto one = rig.filled(6, gpu(0), 2, 1), two = rig.filled(6, gpu(1), 2, 9);
  rig.forget_calls();
  rig.move_all({whole(one, host(0)), whole(two, host(0))});
  const std::vector<TracedCall> trace = rig.trace();
  const auto stop = std::ranges::find(trace, Call::record_context, &TracedCall::call);
  EXPECT_EQ(std::count_if(trace.begin(), stop,
                          [](const TracedCall& call) { return call.call == Call::create; }),
            6);
  EXPECT_EQ(rig.calls(Call::create), 6);
}

// Of HBM, one chunk of each place shows whether it is full; the others are made beside the copies,
// unless these run ahead of the hold.
TEST(HeldGroup, OneTargetOfEachPlaceIsMadeBeforeAnythingIsStopped) {
  MoveRig rig;
  const auto one = rig.filled(6, gpu(0), 2, 1), two = rig.filled(6, gpu(0), 2, 9),
             three = rig.filled(6, gpu(1), 2, 17);
  for (int gpu = 0; gpu < 2; ++gpu) rig.engine().own_context(DeviceId{gpu});
  rig.forget_calls();
  rig.move_all({whole(one, gpu(1)), whole(two, gpu(1)), whole(three, gpu(0))});
  const std::vector<TracedCall> trace = rig.trace();
  const auto stop = std::ranges::find(trace, Call::record_context, &TracedCall::call);
  EXPECT_EQ(std::count_if(trace.begin(), stop,
                          [](const TracedCall& call) { return call.call == Call::create; }),
            2);
}

/// A hook may free other memory of the same call: its own allocation moves when the others have.
TEST(HeldGroup, AHookMayFreeWhatMovesInTheSameCall) {
  MoveRig rig;
  const auto hooked = rig.filled(4, gpu(0), 2, 1), other = rig.filled(2, gpu(0), 2, 9);
  int before = 0, after = 0;
  hooked->hooks().add({[&](const MoveEvent&) {
                         if (++before == 1) rig.free(other);
                       },
                       [&](const MoveEvent& event) { after += event.moved ? 1 : 0; }});
  rig.forget_calls();
  const auto results = rig.move_all({whole(hooked, gpu(1)), whole(other, gpu(1))});
  EXPECT_EQ(results[0].report.outcome, Outcome::done);
  EXPECT_EQ(results[1].report.outcome, Outcome::done);
  EXPECT_EQ(before, 2);
  EXPECT_EQ(after, 2);
  EXPECT_EQ(rig.calls(Call::hold_context), 4) << "two contexts, twice";
  EXPECT_EQ(results[2].report.stall.count, 2u);
}

TEST(HeldGroup, AHookThatRefusesStopsOnlyItsOwn) {
  MoveRig rig;
  const auto hooked = rig.filled(4, gpu(0), 2, 1), other = rig.filled(2, gpu(0), 2, 9);
  hooked->hooks().add({[&](const MoveEvent&) { throw std::runtime_error("not now"); }, {}});
  const auto results = rig.move_all({whole(hooked, gpu(1)), whole(other, gpu(1))});
  EXPECT_EQ(kind_of(results[0]), ErrorKind::cancelled);
  EXPECT_TRUE(says(*results[0].error, "not now"));
  EXPECT_EQ(results[1].report.outcome, Outcome::done);
  EXPECT_EQ(hooked->place(0), gpu(0));
}

class SteppedGroup : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, SteppedGroup, testing::Range<std::uint64_t>(1, 9));

// A hook that comes between the notices and the locks is told all the same, as is one that makes
// exported memory movable.
TEST_P(SteppedGroup, AHookThatComesMeanwhileIsTold) {
  step(GetParam(), [](const SimOptions& options) {
    MoveRig rig("test-2", {}, options);
    const auto exported = rig.filled(2, gpu(0), 2, 1), other = rig.filled(2, gpu(0), 2, 9);
    exported->exported = true;
    int before = 0, after = 0;
    std::vector<RangeResult> results;
    {
      MutexLock held_back(exported->operations());
      const auto migrator = options.stepped->spawn("migrator", [&] {
        results = rig.move_all({whole(exported, gpu(1)), whole(other, gpu(1))});
      });
      sleep(rig, milliseconds(50));
      exported->hooks().add({[&](const MoveEvent&) { ++before; },
                             [&](const MoveEvent& event) { after += event.moved ? 1 : 0; }});
      held_back.unlock();
      migrator->join();
    }
    ASSERT_EQ(results.size(), 3u);
    EXPECT_EQ(results[0].report.outcome, Outcome::done);
    EXPECT_EQ(results[1].report.outcome, Outcome::done);
    EXPECT_EQ(before, 1);
    EXPECT_EQ(after, 1);
  });
}

TEST_P(SteppedGroup, SlowCallsWaitForAMoveThatHoldsNothing) {
  step(GetParam(), [](const SimOptions& options) {
    MoveRig rig("test-2", {}, options);
    const auto one = rig.filled(2, gpu(0), 2, 1), two = rig.filled(2, gpu(0), 2, 9);
    rig.delay(Call::copy, milliseconds(20));
    rig.forget_calls();
    const auto migrator = options.stepped->spawn("migrator", [&] {
      MigrateOptions unheld;
      unheld.nothing_runs = true;
      rig.move_all({whole(one, gpu(1)), whole(two, gpu(1))}, unheld);
    });
    while (rig.calls(Call::copy) < 1) options.stepped->sleep(std::chrono::microseconds(50));
    EXPECT_FALSE(rig.memory().chunks().slow_calls().turn().is_free());
    migrator->join();
    EXPECT_TRUE(rig.memory().chunks().slow_calls().turn().is_free());
  });
}

// While the thread that moves is blocked in the driver, the watchdog opens the hold: nothing goes
// dark any more, for no range. With a warm cache the block shows only if the driver is asked before
// a slot goes dark, when nobody could open the hold.
TEST_P(SteppedGroup, AHoldThatIsLostEndsAllThatIsLeft) {
  for (const bool warm : {false, true}) {
    step(GetParam(), [warm](const SimOptions& options) {
      MoveRig rig("test-2", {}, options);
      const auto one = rig.filled(2, gpu(0), 2, 1), two = rig.filled(2, gpu(0), 2, 9);
      for (const Place to : {gpu(1), gpu(0)}) {
        if (warm) rig.move_all({whole(one, to), whole(two, to)});
      }
      rig.engine().own_context(DeviceId{0});
      const auto destroyer = spawn_destroyer(rig, *options.stepped, Call::copy, milliseconds(20));
      MigrateOptions limited;
      limited.deadline = milliseconds(100);
      const auto results = rig.move_all({whole(one, gpu(1)), whole(two, gpu(1))}, limited);
      destroyer->join();
      for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(kind_of(results[i]), ErrorKind::busy);
        EXPECT_EQ(results[i].report.failures.size(), 1u);
      }
      rig.delay(Call::copy, TimePoint(0));
      EXPECT_EQ(one->place(0), gpu(0));
      EXPECT_EQ(two->place(0), gpu(0));
      EXPECT_EQ(rig.move_all({whole(one, gpu(1)), whole(two, gpu(1))})[2].report.outcome,
                Outcome::done);
      EXPECT_EQ(rig.wrong(*one, 1), 0u);
      EXPECT_EQ(rig.wrong(*two, 9), 0u);
    });
  }
}

// Two calls that name the same allocations in opposite order, a third that frees one of them.
TEST_P(SteppedGroup, CallsWithOverlappingSetsDoNotWaitForEachOther) {
  step(GetParam(), [](const SimOptions& options) {
    MoveRig rig("test-2", {}, options);
    std::vector<std::shared_ptr<Allocation>> all;
    for (std::uint64_t i = 0; i < 4; ++i) all.push_back(rig.filled(2, gpu(0), 1, i << 20));
    const auto brief = rig.filled(2, gpu(0), 1, 7);
    std::vector<std::unique_ptr<Task>> threads;
    for (const bool backwards : {false, true}) {
      threads.push_back(options.stepped->spawn("migrator", [&, backwards] {
        for (int round = 0; round < 4; ++round) {
          std::vector<RequestedRange> ranges;
          for (const auto& each : all) {
            ranges.push_back(whole(each, gpu((round + (backwards ? 1 : 0)) % 2)));
          }
          ranges.push_back(whole(brief, host(0)));
          if (backwards) std::ranges::reverse(ranges);
          for (const RangeResult& result : rig.move_all(ranges)) {
            EXPECT_TRUE(!result.error || result.error->kind() == ErrorKind::cancelled);
          }
        }
      }));
    }
    threads.push_back(options.stepped->spawn("free", [&] {
      options.stepped->sleep(std::chrono::microseconds(300));
      rig.free(brief);
    }));
    for (const auto& thread : threads) thread->join();
    for (std::uint64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(rig.wrong(*all[i], i << 20), 0u);
      rig.expect_shown(*all[i]);
    }
    expect_books(rig);
  });
}

}  // namespace
}  // namespace vma
