// Goal: a replay starts moves as the runtime's scheduler submits them, and shows policies which
// moves are planned already. Method: a replay scheduler stepped by hand, a full GPU, and a policy
// that swaps hot chunks for cold ones.

#include "base/units.hpp"
#include "lab/replay/replay_scheduler.hpp"
#include "unit/lab/replay/replay_rig.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

constexpr std::uint32_t cold_chunks = 8, hot_chunks = 8;

bool is_cold(ChunkId chunk) {
  return index(chunk) < cold_chunks;
}

/// Wants each chunk of the second half at GPU 0, unless it is on its way, in exchange for one of
/// the first half. The last one is worth most.
void swap_all(const Snapshot& snapshot, Plan& plan) {
  std::uint32_t victim = 0;
  for (std::uint32_t hot = cold_chunks; hot < cold_chunks + hot_chunks; ++hot) {
    const ChunkRow& row = snapshot.chunk(ChunkId{hot});
    if (row.at == gpu_0 || row.moving) continue;
    const auto leaves = [&](std::uint32_t number) {
      const ChunkRow& cold = snapshot.chunk(ChunkId{number});
      return cold.at == gpu_0 && !cold.moving;
    };
    while (victim < cold_chunks && !leaves(victim)) ++victim;
    if (victim < cold_chunks) plan.evict(ChunkId{victim++}, host_0, "cold");
    plan.move(ChunkId{hot}, gpu_0, hot, "hot");
  }
}

/// The first half of an allocation fills GPU 0; the second half is in host memory and is used.
struct SwapRig {
  explicit SwapRig(std::uint64_t chunk_bytes = 100)
      : scheduler({{gpu(0), cold_chunks * chunk_bytes, 0, 0},
                   {gpu(1), 0, 0, 0},
                   {host(0), 100 * chunk_bytes, 0, 0}},
                  TwoGpus().costs, limits(), std::make_unique<ToldPolicy>(swap_all)) {
    std::vector<ChunkTables::NewChunk> chunks(cold_chunks, {chunk_bytes, gpu_0});
    chunks.resize(cold_chunks + hot_chunks, {chunk_bytes, host_0});
    scheduler.tables().add(0, "", chunks);
    scheduler.set_now(std::chrono::seconds(10));  // They have been there for a while.
    for (std::uint32_t hot = cold_chunks; hot < cold_chunks + hot_chunks; ++hot)
      scheduler.use(ChunkId{hot}, gpu_0, 100, 0);
    scheduler.collect();
  }

  static ReplaySchedulerLimits limits() {
    ReplaySchedulerLimits limits;
    limits.planner.stall_share = 0;
    return limits;
  }
  void end(const AcceptedMove& move) { scheduler.end(move, true, Time(1), Time(0)); }
  /// Computed from the rows of the chunks.
  std::vector<std::uint64_t> lying() const {
    std::vector<std::uint64_t> bytes(scheduler.snapshot().places().size());
    for (const ChunkRow& row : scheduler.snapshot().chunks()) bytes[index(row.at)] += row.bytes;
    return bytes;
  }
  /// The moves that start now, then those that start when each of them has ended, and so on.
  std::string order() {
    std::string order;
    std::vector<AcceptedMove> under_way = scheduler.take_ready();
    for (std::size_t i = 0; i < under_way.size(); ++i) {
      const AcceptedMove move = under_way[i];
      order += (order.empty() ? "" : " ") + std::string(is_cold(move.chunk) ? "-" : "+") +
               std::to_string(index(move.chunk));
      end(move);
      for (AcceptedMove& next : scheduler.take_ready()) under_way.push_back(std::move(next));
    }
    return order;
  }

  ReplayScheduler scheduler;
};

TEST(ReplayScheduler, WhatIsPlannedIsNotWishedForAgain) {
  SwapRig rig;
  rig.scheduler.tick();
  EXPECT_EQ(rig.scheduler.counters().moves_wanted, cold_chunks + hot_chunks);
  rig.scheduler.tick();
  for (const AcceptedMove& move : rig.scheduler.take_ready()) rig.end(move);
  rig.scheduler.tick();
  EXPECT_EQ(rig.scheduler.counters().moves_wanted, cold_chunks + hot_chunks);
  EXPECT_TRUE(rig.scheduler.counters().moves_refused.empty());
}

// Moves with room go before further victims, the most valuable first.
TEST(ReplayScheduler, MovesBeginInTheOrderOfTheirPlan) {
  SwapRig rig;
  rig.scheduler.tick();
  EXPECT_EQ(rig.order(), "-0 -1 -2 -3 +15 +14 +13 +12 -4 -5 -6 -7 +11 +10 +9 +8");
  EXPECT_EQ(rig.scheduler.under_way(), 0u);
}

/// Fails in its ticks only.
class FailsAtTicks : public Policy {
 public:
  void on_use(const UseEvent&, const Snapshot&, Plan&) override {}
  void on_tick(const Snapshot&, Plan&) override { throw std::runtime_error("no"); }
};

// As in the runtime, the failures of each entry point are counted separately.
TEST(ReplayScheduler, APolicyThatAlwaysFailsInOneEntryPointIsReplaced) {
  ReplayScheduler scheduler({{gpu(0), 1000, 0, 0}, {gpu(1), 0, 0, 0}, {host(0), 1000, 0, 0}},
                            TwoGpus().costs, {}, std::make_unique<FailsAtTicks>());
  const std::vector<ChunkTables::NewChunk> chunks(1, {100, gpu_0});
  scheduler.tables().add(0, "", chunks);
  for (int i = 0; i < 5; ++i) {
    scheduler.use(ChunkId{0}, gpu_0, 100, 0);
    scheduler.collect();
    scheduler.tick();
  }
  EXPECT_EQ(scheduler.counters().policy_failures, 3u);
}

TEST(ReplayScheduler, WhatAPolicyThrowsEndsTheReplayIfTheLimitsSaySo) {
  ReplaySchedulerLimits limits;
  limits.ends_it = [](const std::exception&) { return true; };
  ReplayScheduler scheduler({{gpu(0), 1000, 0, 0}, {gpu(1), 0, 0, 0}, {host(0), 1000, 0, 0}},
                            TwoGpus().costs, limits, std::make_unique<FailsAtTicks>());
  EXPECT_THROW(scheduler.tick(), std::runtime_error);
  EXPECT_EQ(scheduler.counters().policy_failures, 0u);
}

TEST(ReplayScheduler, WhatIsOnItsWayLiesWhereItWasUntilItHasMoved) {
  SwapRig rig;
  rig.scheduler.tick();
  std::vector<AcceptedMove> under_way = rig.scheduler.take_ready();
  for (std::size_t i = 0; i < under_way.size(); ++i) {
    EXPECT_EQ(rig.scheduler.resident_bytes(), rig.lying());
    const AcceptedMove move = under_way[i];
    rig.scheduler.end(move, i % 3 > 0, Time(1), Time(0));  // Some of them fail.
    EXPECT_EQ(rig.scheduler.resident_bytes(), rig.lying());
    for (AcceptedMove& next : rig.scheduler.take_ready()) under_way.push_back(std::move(next));
  }
  EXPECT_GT(under_way.size(), 4u);
  EXPECT_EQ(rig.scheduler.under_way(), 0u);
}

TEST(ReplayScheduler, OfAPlacesVictimsFourNeighboursLeaveTogether) {
  SwapRig rig;
  rig.scheduler.tick();
  const std::vector<AcceptedMove> first = rig.scheduler.take_ready();
  ASSERT_EQ(first.size(), 4u);
  for (const AcceptedMove& move : first) {
    for (const AcceptedMove& next : rig.scheduler.take_ready())
      EXPECT_FALSE(is_cold(next.chunk)) << "chunk " << index(next.chunk);
    rig.end(move);
  }
  std::size_t victims = 0;
  for (const AcceptedMove& next : rig.scheduler.take_ready())
    victims += is_cold(next.chunk) ? 1 : 0;
  EXPECT_EQ(victims, 4u);
}

TEST(ReplayScheduler, VictimsThatLeaveTogetherAreNoMoreThan256MiB) {
  SwapRig rig(128 * MiB);
  rig.scheduler.tick();
  EXPECT_EQ(rig.scheduler.take_ready().size(), 2u);
}

TEST(ReplayScheduler, VictimsThatTheTraceWaitsForGoAllAtOnce) {
  SwapRig rig;
  rig.scheduler.press({gpu_0, cold_chunks * 100, gpu_0});
  EXPECT_EQ(rig.scheduler.take_ready().size(), cold_chunks);
}

TEST(ReplayScheduler, WhatIsNotMadeIsNotMoving) {
  SwapRig rig;
  rig.scheduler.tick();
  const std::vector<AcceptedMove> first = rig.scheduler.take_ready();
  ASSERT_FALSE(first.empty());
  for (const AcceptedMove& move : first) rig.scheduler.end(move, false, Time(1), Time(0));
  EXPECT_GT(rig.scheduler.counters().moves_dropped, 0u);
  const Snapshot snapshot = rig.scheduler.snapshot();
  for (std::uint32_t chunk = 0; chunk < cold_chunks + hot_chunks; ++chunk) {
    EXPECT_EQ(snapshot.chunk(ChunkId{chunk}).moving, rig.scheduler.is_moving(ChunkId{chunk}))
        << "chunk " << chunk;
  }
}

// Two chunks are swapped through host memory, so one of them moves twice.
TEST(ReplayScheduler, AChunkIsMovingUntilItsLastLegHasEnded) {
  const auto exchange = [](const Snapshot&, Plan& plan) {
    plan.move(ChunkId{0}, gpu_1, 1, "there");
    plan.move(ChunkId{1}, gpu_0, 1, "back");
  };
  ReplayScheduler scheduler({{gpu(0), 100, 0, 0}, {gpu(1), 100, 0, 0}, {host(0), 100, 0, 0}},
                            TwoGpus().costs, SwapRig::limits(),
                            std::make_unique<ToldPolicy>(exchange));
  scheduler.tables().add(0, "", std::vector<ChunkTables::NewChunk>{{100, gpu_0}, {100, gpu_1}});
  scheduler.set_now(std::chrono::seconds(10));
  scheduler.tick();
  int first_legs = 0;
  while (scheduler.under_way() > 0) {
    const std::vector<AcceptedMove> started = scheduler.take_ready();
    ASSERT_FALSE(started.empty());
    for (const AcceptedMove& move : started) {
      const bool first = move.leg == AcceptedMove::Leg::first;
      first_legs += first ? 1 : 0;
      scheduler.end(move, true, Time(1), Time(0));
      EXPECT_EQ(scheduler.snapshot().chunk(move.chunk).moving, first);
    }
  }
  EXPECT_EQ(first_legs, 1);
}

}  // namespace
}  // namespace vma
