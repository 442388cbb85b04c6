// Goal: the rig of the policy tests refuses invalid plans and tells a policy what a scheduler
// would. Method: a policy with proposals set by the test.
#include "unit/placement/policies/policy_rig.hpp"

#include "base/units.hpp"

#include <gtest/gtest-spi.h>

namespace vma {
inline namespace v1 {
namespace {

Plan wanted;
std::size_t results = 0, gone = 0;

class Wishing : public Policy {
 public:
  void on_tick(const Snapshot&, Plan& plan) override { plan = wanted; }
  void on_result(const MoveResult&, const Snapshot&) override { ++results; }
  void on_gone(ChunkId) override { ++gone; }
};

PolicyKind wishing() {
  return {"wishing", "these tests", {}, [](const PolicyValues&) -> std::unique_ptr<Policy> {
            return std::make_unique<Wishing>();
          }};
}

class PolicyRigTest : public testing::Test {
 protected:
  void SetUp() override {
    wanted.clear();
    results = gone = 0;
  }
  PolicyRig rig_{wishing(), PolicyMachine::h200(2, 8 * MiB, 64 * MiB)};
};

TEST_F(PolicyRigTest, MakesMovesInOrderSoThatVictimsMakeRoom) {
  const ChunkId first = rig_.allocate({6 * MiB}, gpu_place(0));
  const ChunkId second = rig_.allocate({6 * MiB}, gpu_place(1));
  wanted.evict(first, rig_.host_place(), "room");
  wanted.move(second, gpu_place(0), 1, "hot");
  EXPECT_EQ(rig_.apply(rig_.tick()), 2u);
  EXPECT_EQ(rig_.at(first), rig_.host_place());
  EXPECT_EQ(rig_.at(second), gpu_place(0));
  EXPECT_EQ(results, 2u);
  EXPECT_EQ(rig_.free_bytes(gpu_place(1)), 8 * MiB);
}

TEST_F(PolicyRigTest, FailsTheTestWhereThereIsNoRoom) {
  rig_.allocate({6 * MiB}, gpu_place(0));
  wanted.move(rig_.allocate({6 * MiB}, gpu_place(1)), gpu_place(0), 1, "hot");
  const Plan plan = rig_.tick();
  EXPECT_NONFATAL_FAILURE(rig_.apply(plan), "no room");
}

TEST_F(PolicyRigTest, FailsTheTestWhereNothingMayMove) {
  const ChunkId chunk = rig_.allocate({2 * MiB}, gpu_place(1));
  rig_.tables().row(chunk).movable = false;
  wanted.move(chunk, gpu_place(0), 1, "hot");
  const Plan plan = rig_.tick();
  EXPECT_NONFATAL_FAILURE(rig_.apply(plan), "before.movable");
}

TEST_F(PolicyRigTest, RequestsFillTheFastestPlacesFirst) {
  const ChunkId first = rig_.request(21 * MiB, 4 * MiB, gpu_place(1));
  // Two in its own HBM, two at the peer, one and the last MiB in host memory.
  EXPECT_EQ(rig_.places_of(first, 6), (std::vector<std::size_t>{1, 1, 0, 0, 2, 2}));
  EXPECT_EQ(rig_.free_bytes(rig_.host_place()), 59 * MiB);
  rig_.free(first);
  EXPECT_EQ(gone, 6u);
  EXPECT_EQ(rig_.free_bytes(gpu_place(1)), 8 * MiB);
}

TEST_F(PolicyRigTest, TicksShowWhatChangedSinceTheLast) {
  const ChunkId chunk = rig_.allocate({2 * MiB}, gpu_place(1));
  EXPECT_EQ(rig_.snapshot().changed().size(), 1u);
  rig_.tick();
  EXPECT_TRUE(rig_.snapshot().changed().empty());
  rig_.use(chunk, gpu_place(0), 1);
  EXPECT_EQ(rig_.snapshot().changed().size(), 1u);
}

}  // namespace
}  // namespace v1
}  // namespace vma
