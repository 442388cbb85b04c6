// Goal: swaps that a policy proposes use room as soon as it is there, most valuable first, and
// nothing is requested twice. Method: a scheduler stepped by hand on a simulated machine with full
// HBM, a policy made for the test, and hooks that see the order of moves.

#include "unit/memory/memory_rig.hpp"
#include "unit/runtime/scheduler_rig.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

namespace vma {
namespace {

constexpr std::uint32_t cold_chunks = 8, hot_chunks = 8;
constexpr PlaceId gpu0{0};

/// Wants each chunk of the second half at GPU 0, unless it is on its way, in exchange for one of
/// the first half. The last one is worth most.
class Swaps : public Policy {
 public:
  void on_tick(const Snapshot& snapshot, Plan& plan) override {
    const PlaceId host{static_cast<std::uint8_t>(snapshot.costs().gpus())};
    std::uint32_t victim = 0;
    for (std::uint32_t hot = cold_chunks; hot < cold_chunks + hot_chunks; ++hot) {
      const ChunkRow& row = snapshot.chunk(ChunkId{hot});
      if (row.at == gpu0 || row.moving) continue;
      const auto leaves = [&](std::uint32_t number) {
        const ChunkRow& cold = snapshot.chunk(ChunkId{number});
        return cold.at == gpu0 && !cold.moving;
      };
      while (victim < cold_chunks && !leaves(victim)) ++victim;
      if (victim < cold_chunks) plan.evict(ChunkId{victim++}, host, "cold");
      plan.move(ChunkId{hot}, gpu0, hot, "hot");
    }
  }
};

class Swap : public testing::Test {
 protected:
  Swap() {
    words_ = rig_.alloc(cold_chunks + hot_chunks, host(0));
    rig_.runtime().migrate(words_, 0, cold_chunks * SchedulerRig::chunk_bytes, gpu(0));
    rig_.scheduler().set_capacity(gpu(0), cold_chunks * SchedulerRig::chunk_bytes);
    rig_.pass(std::chrono::seconds(10));  // They have been there for a while.
    MoveHooks hooks;
    hooks.after = [this](const MoveEvent& event) {
      const std::size_t chunk = event.offset / SchedulerRig::chunk_bytes;
      const MutexLock lock(mutex_);
      order_ += (order_.empty() ? "" : " ") + std::string(chunk < cold_chunks ? "-" : "+") +
                std::to_string(chunk);
    };
    hooked_.emplace(rig_.runtime().on_move(words_, std::move(hooks)));
    for (std::uint32_t hot = cold_chunks; hot < cold_chunks + hot_chunks; ++hot)
      rig_.use(words_, hot, 0);
  }

  static RuntimeOptions options() {
    PolicyKind kind;
    kind.name = "swaps";
    kind.make = [](const PolicyValues&) { return std::make_unique<Swaps>(); };
    RuntimeOptions options;
    options.policies = {kind};
    return options;
  }
  std::string order() {
    const MutexLock lock(mutex_);
    return order_;
  }

  Mutex mutex_;
  std::string order_ VMART_GUARDED_BY(mutex_);
  SchedulerRig rig_{"swaps", "test-2", options()};
  std::uint64_t* words_ = nullptr;
  std::optional<MoveHookRegistration> hooked_;
};

// Four adjacent victims are one migration; the chunks that replace them, the most valuable ones,
// move before the next victims leave, neighbours together.
TEST_F(Swap, WhatHasItsRoomGoesBeforeFurtherVictims) {
  rig_.step();
  EXPECT_EQ(order(), "-0 -1 -2 -3 +12 +13 +14 +15 -4 -5 -6 -7 +8 +9 +10 +11");
  EXPECT_EQ(rig_.runtime().scheduler_stats().moves_failed, 0u);
}

TEST_F(Swap, NothingIsWishedForTwice) {
  EXPECT_TRUE(comes_true([&] {
    rig_.runtime().step_scheduler();
    return rig_.runtime().scheduler_stats().moves_done == cold_chunks + hot_chunks;
  }));
  const SchedulerStats stats = rig_.runtime().scheduler_stats();
  EXPECT_EQ(stats.moves_wanted, cold_chunks + hot_chunks);
  EXPECT_TRUE(stats.moves_refused.empty());
}

// A program that waits for room does not wait for proposals of policies.
TEST_F(Swap, VictimsThatAProgramWaitsForGoAllAtOnce) {
  DrainOptions options;
  options.deadline = std::chrono::minutes(1);
  const DrainReport report = rig_.scheduler().drain_place(gpu(0), options);
  EXPECT_EQ(report.bytes_left, 0u);
  EXPECT_EQ(order(), "-0 -1 -2 -3 -4 -5 -6 -7");
}

}  // namespace
}  // namespace vma
