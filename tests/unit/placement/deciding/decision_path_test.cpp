// Goal: accepted moves begin in an order that lets the migrator do much at once: neighbours
// together, the most valuable first, and in small groups where others wait for the room. Method:
// plans by hand on machines like H200s; a group is written as its first and last chunk.
#include "placement/deciding/decision_path.hpp"

#include "base/units.hpp"
#include "unit/placement/policies/policy_rig.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace vma {
namespace {

using namespace std::chrono_literals;

constexpr PlaceId a = gpu_place(0), b = gpu_place(1);

PlannerLimits without_budgets() {
  PlannerLimits limits;
  limits.stall_share = 0;
  return limits;
}

class DecisionPathTest : public testing::Test {
 protected:
  /// An allocation of so many chunks. Returns the first.
  std::uint32_t add(std::size_t chunks, std::uint64_t bytes, PlaceId at) {
    const std::vector<ChunkTables::NewChunk> all(chunks, {bytes, at});
    const ChunkId first = path_.books().add(++allocations_, "", all);
    path_.books().set_now(10s);
    return static_cast<std::uint32_t>(first);
  }
  void want(std::uint32_t chunk, PlaceId to, double value) {
    plan_.move(ChunkId{chunk}, to, value, "test");
  }
  void evict(std::uint32_t chunk, PlaceId to) { plan_.evict(ChunkId{chunk}, to, "test"); }
  /// Such as "0-3 7": the groups that begin now, by their slots.
  std::string begin() {
    const PlanOutcome outcome = path_.accept(std::exchange(plan_, {}), false);
    EXPECT_TRUE(outcome.refused.empty());
    return begin_more();
  }
  std::string begin_more() {
    std::vector<PlannedMigration> groups;
    path_.take(path_.ready(), groups);
    std::string text;
    for (const PlannedMigration& group : groups) {
      for (std::size_t i = 1; i < group.moves.size(); ++i)
        EXPECT_EQ(index(group.moves[i].chunk), index(group.moves[i - 1].chunk) + 1);
      text += fmt::format("{}{}", text.empty() ? "" : " ", index(group.moves.front().chunk));
      if (group.moves.size() > 1) text += fmt::format("-{}", index(group.moves.back().chunk));
      for (const AcceptedMove& move : group.moves) begun_.push_back(move);
    }
    return text;
  }
  void end_all() {
    for (const AcceptedMove& move : std::exchange(begun_, {})) path_.end(move, true, 1ms, 1ms);
  }

  const PolicyMachine machine_ = PolicyMachine::h200(2, 64 * GiB, 64 * GiB);
  DecisionPath path_{machine_.places(), machine_.costs, without_budgets(), HeatLimits{}};
  Plan plan_;
  std::vector<AcceptedMove> begun_;
  std::uint32_t allocations_ = 0;
};

// Values of neighbours differ a little, as they do where uses are counted.
TEST_F(DecisionPathTest, NeighboursAreOneMigrationWhateverTheOrderOfTheirValues) {
  add(20, 32 * MiB, a);
  for (const std::uint32_t chunk :
       {7u, 2u, 19u, 0u, 11u, 5u, 3u, 8u, 1u, 14u, 6u, 4u, 17u, 9u, 10u, 12u, 16u, 13u, 15u, 18u})
    want(chunk, b, 1 + 0.01 * ((chunk * 7) % 20));
  EXPECT_EQ(begin(), "4-19 0-3");
}

TEST_F(DecisionPathTest, AMigrationHasAtMostAGigabyte) {
  add(12, 256 * MiB, a);
  for (std::uint32_t chunk = 0; chunk < 12; ++chunk) want(chunk, b, 1);
  EXPECT_EQ(begin(), "0-3 4-7 8-11");
}

TEST_F(DecisionPathTest, WhatIsWorthMuchMoreDoesNotWaitForItsNeighbours) {
  add(8, 32 * MiB, a);
  for (std::uint32_t chunk = 0; chunk < 8; ++chunk) want(chunk, b, chunk == 4 ? 10 : 1);
  EXPECT_EQ(begin(), "4 0-3 5-7");
}

TEST_F(DecisionPathTest, OtherRoutesAndAllocationsAreOtherMigrations) {
  add(4, 32 * MiB, a);
  add(2, 32 * MiB, a);
  for (std::uint32_t chunk = 0; chunk < 6; ++chunk) want(chunk, chunk == 1 ? gpu_place(2) : b, 1);
  EXPECT_EQ(begin(), "0 2-3 4-5 1");
}

// The room of 0 to 7 is for 8 to 15, whose route is the other way round.
TEST_F(DecisionPathTest, GroupsWhoseRoomIsAwaitedAreSmall) {
  path_.books().set_capacity(a, 8 * 32 * MiB);
  path_.books().set_capacity(b, 16 * 32 * MiB);
  add(8, 32 * MiB, a);
  add(8, 32 * MiB, b);
  for (std::uint32_t chunk = 0; chunk < 16; ++chunk) want(chunk, chunk < 8 ? b : a, 1);
  EXPECT_EQ(begin(), "0-3 4-7");
  end_all();
  EXPECT_EQ(begin_more(), "8-15");
}

TEST_F(DecisionPathTest, OneGroupOfVictimsOfAPlaceIsUnderWay) {
  path_.books().set_capacity(a, 8 * 32 * MiB);
  add(8, 32 * MiB, a);
  add(8, 32 * MiB, b);
  for (std::uint32_t chunk = 0; chunk < 8; ++chunk) {
    evict(chunk, gpu_place(2));
    path_.books().used(ChunkId{chunk + 8}, a, 1e9, 0);
    want(chunk + 8, a, 1);
  }
  EXPECT_EQ(begin(), "0-3");
  end_all();
  EXPECT_EQ(begin_more(), "8-11 4-7");
  end_all();
  EXPECT_EQ(begin_more(), "12-15");
}

/// Counts how often each chunk was announced before its use.
class PreparingPolicy : public Policy {
 public:
  void prepare(ChunkId chunk) const override { ++prepared_[index(chunk)]; }
  void on_use(const UseEvent& use, const Snapshot&, Plan&) override {
    at_use.push_back(prepared_[index(use.chunk)]);
  }
  std::vector<int> at_use;

 private:
  mutable std::map<std::size_t, int> prepared_;
};

TEST_F(DecisionPathTest, PoliciesMayPrefetchEachUseButTheFirstOnes) {
  constexpr std::uint32_t chunks = 100;
  add(chunks, 32 * MiB, a);
  UseReports reports;
  for (std::uint32_t i = 0; i < chunks; ++i) reports.uses.push_back({ChunkId{i}, a, 1, 0, nullptr});
  PreparingPolicy policy;
  reports.tell(policy, path_.snapshot(), plan_);
  ASSERT_EQ(policy.at_use.size(), chunks);
  const auto late = std::ranges::count(policy.at_use, 0);
  EXPECT_GT(late, 0);
  EXPECT_LE(late, 32) << "further ahead, they would leave the cache again";
  EXPECT_EQ(std::ranges::count(policy.at_use, 1), chunks - late);
}

}  // namespace
}  // namespace vma
