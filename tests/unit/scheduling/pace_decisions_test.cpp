// Goal: moves of a policy of the program's own that slow the program down are stopped; the stats,
// the decision log and `explain` say so; other moves go on. Method: a scheduler that is looked at
// every 10 ms of a simulated machine, a policy that never stops moving, and a program that reports
// fewer uses while it does.

#include "unit/memory/memory_rig.hpp"
#include "unit/scheduling/logged_decisions.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vma {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t all_chunks = 256;

/// Wants a chunk at the other GPU in every tick, each in its turn.
class MovesToAndFro : public Policy {
 public:
  void on_tick(const Snapshot& snapshot, Plan& plan) override {
    const ChunkId chunk{turn_++ % all_chunks};
    if (index(chunk) >= snapshot.chunks().size() || snapshot.chunk(chunk).bytes == 0) return;
    plan.move(chunk,
              PlaceId{snapshot.chunk(chunk).at == PlaceId{0} ? std::uint8_t{1} : std::uint8_t{0}},
              1, "test");
  }

 private:
  std::uint32_t turn_ = 0;
};

class PaceDecisions : public LoggedDecisions {
 protected:
  void open(std::optional<bool> guard = std::nullopt) {
    RuntimeOptions options;
    options.pace_guard = guard;
    LoggedDecisions::open(options, std::make_unique<MovesToAndFro>, all_chunks);
  }
  /// So many ticks, 10 ms each. The program reports 100 uses in each, or 41 if a chunk moves, which
  /// takes all of the tick.
  void run(int ticks) {
    for (int i = 0; i < ticks; ++i) {
      const std::uint64_t before = stats().moves_started;
      rig_->runtime().step_scheduler();
      const bool moves = stats().moves_started > before;
      Migrator& migrator = parts_of(rig_->runtime()).machinery->migrator;
      ASSERT_TRUE(comes_true([&] { return migrator.load().running == 0; }));
      rig_->pass(10ms);
      for (int use = 0; use < (moves ? 41 : 100); ++use) rig_->use(words_, 0, 0, 1);
    }
  }
  /// In the end they stop: how far apart the reports are depends on threads, and with it the test.
  void run_until_moves_stop() {
    for (int i = 0; i < 5000 && stats().moves_held.rfind("moves stop for ", 0) != 0; ++i) run(1);
    ASSERT_EQ(stats().moves_held.rfind("moves stop for ", 0), 0u) << stats().moves_held;
  }
  SchedulerStats stats() { return rig_->runtime().scheduler_stats(); }
};

TEST_F(PaceDecisions, MovesThatSlowTheProgramDownStop) {
  open();
  run_until_moves_stop();
  const std::uint64_t moved = stats().moves_done;
  EXPECT_GT(moved, 50u);
  run(100);
  EXPECT_EQ(stats().moves_done, moved);
  EXPECT_GT(stats().moves_refused["held_back"], 50u);
  const std::vector<std::string> lines = rig_->scheduler().explain(address_of(words_));
  EXPECT_TRUE(std::ranges::any_of(
      lines, [](const std::string& line) { return line.rfind("moves stop for ", 0) == 0; }));
  EXPECT_NE(log().find("\"kind\":\"pace_judged\""), std::string::npos);
}

TEST_F(PaceDecisions, MovesOfTheProgramAndForRoomGoOn) {
  open();
  run_until_moves_stop();
  const std::uint64_t moved = stats().moves_done;
  rig_->runtime().migrate(words_, gpu(1));
  EXPECT_EQ(rig_->place(words_, 0), gpu(1));
  EXPECT_TRUE(rig_->scheduler().make_room(gpu(1), SchedulerRig::chunk_bytes,
                                          rig_->machine().clock().now() + 10s));
  EXPECT_GT(stats().moves_done, moved);
}

TEST_F(PaceDecisions, AnotherPolicyMayMove) {
  open();
  run_until_moves_stop();
  rig_->runtime().set_policy("tested");
  EXPECT_EQ(stats().moves_held, "");
}

TEST_F(PaceDecisions, AreNotMadeIfTheGuardIsOff) {
  open(false);
  run(300);
  EXPECT_EQ(stats().moves_refused.count("held_back"), 0u);
}

}  // namespace
}  // namespace vma
