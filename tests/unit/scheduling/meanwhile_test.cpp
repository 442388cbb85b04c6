// Goal: what happens between a plan and its moves is respected. Method: a policy made for the test,
// which lets the test do something right after it has planned.

#include "unit/runtime/scheduler_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

bool any_says(const std::vector<std::string>& lines, const std::string& text) {
  return std::ranges::any_of(
      lines, [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

/// Wants the first chunk at GPU 1, and lets a test do something between its plan and the move.
class MovesTheFirst : public Policy {
 public:
  void on_tick(const Snapshot& snapshot, Plan& plan) override {
    if (!meanwhile || snapshot.chunk(ChunkId{0}).moving) return;
    plan.move(ChunkId{0}, PlaceId{1}, 1, "wanted");
    std::exchange(meanwhile, {})();
  }

  static RuntimeOptions options() {
    PolicyKind kind;
    kind.name = "moves_the_first";
    kind.make = [](const PolicyValues&) { return std::make_unique<MovesTheFirst>(); };
    RuntimeOptions options;
    options.policies = {kind};
    return options;
  }

  static inline std::function<void()> meanwhile;
};

TEST(SchedulerMeanwhile, StartsNoMoveThatMayNotBeginAnyMore) {
  for (const std::string why : {"is pinned", "being freed"}) {
    SCOPED_TRACE(why);
    SchedulerRig rig("moves_the_first", "test-2", MovesTheFirst::options());
    std::uint64_t* words = rig.alloc(1, gpu(0));
    const auto allocation = parts_of(rig.runtime()).machinery->memory.require(words, "test");
    std::optional<Pin> pin;
    MovesTheFirst::meanwhile = [&] {
      if (why == "is pinned") {
        pin.emplace(rig.runtime().pin(words));
      } else {
        allocation->being_freed = true;
      }
    };
    rig.step();
    allocation->being_freed = false;
    const SchedulerStats stats = rig.runtime().scheduler_stats();
    EXPECT_EQ(stats.moves_wanted, 1u);
    EXPECT_EQ(stats.moves_started, 0u);
    EXPECT_EQ(rig.place(words), gpu(0));
    const std::vector<std::string> said = rig.runtime().explain(words);
    EXPECT_TRUE(any_says(said, "not_moved from gpu(0) to gpu(1): "));
    EXPECT_TRUE(any_says(said, why));
    EXPECT_TRUE(any_says(said, "moved 0 times"));
  }
}

TEST(SchedulerMeanwhile, AMoveWhoseRoomIsGonePushesNothingOut) {
  SchedulerRig rig("moves_the_first", "test-2", MovesTheFirst::options());
  std::uint64_t* words = rig.alloc(1, gpu(0));
  std::uint64_t* other = rig.alloc(1, gpu(1));
  ChunkStore& chunks = parts_of(rig.runtime()).machinery->memory.chunks();
  MovesTheFirst::meanwhile = [&] {
    chunks.trim(gpu(1));
    chunks.set_capacity(gpu(1), chunks.ledger().account(gpu(1)).total());
  };
  rig.step();
  EXPECT_EQ(rig.runtime().scheduler_stats().moves_failed, 1u);
  EXPECT_EQ(rig.place(words), gpu(0));
  EXPECT_EQ(rig.place(other), gpu(1));
  EXPECT_TRUE(any_says(rig.runtime().explain(words), "moved 0 times"));
}

}  // namespace
}  // namespace vma
