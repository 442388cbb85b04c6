// Goal: `counter` moves a chunk exactly when its source's rule says so, and leaves evenly shared
// chunks in place. Method: hand-computed uses on machines like H200s, where one pass over 395 MB of
// a peer's HBM takes 395e6 x (1/390e9 - 1/3.8e12) = 0.909 ms more than at home, and a move takes 1
// ms of copy, 0.2 ms besides and a stall of 0.2 ms: 1.4 ms. With theta = 2 the fourth pass reaches
// 2.8 ms.
#include "placement/policies/built_in_policies.hpp"

#include "unit/placement/policies/policy_rig.hpp"

namespace vma {
inline namespace v1 {
namespace {

class CounterTest : public testing::Test {
 protected:
  PolicyRig rig_{counter_kind(), PolicyMachine::h200(3, 10 * large_chunk, 40 * large_chunk)};
  const PlaceId a_ = gpu_place(0), b_ = gpu_place(1), c_ = gpu_place(2);
};

TEST_F(CounterTest, MovesAtTheUseThatReachesTwiceTheCost) {
  const ChunkId chunk = rig_.allocate({large_chunk}, a_);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(rig_.use_and_apply(chunk, b_, large_pass), 0u) << i;
  const Plan plan = rig_.use(chunk, b_, large_pass);
  ASSERT_EQ(proposals(plan), "chunk 0 to 1");
  EXPECT_NEAR(plan.moves()[0].value, 4 * 0.9089e-3 - 1.4e-3, 1e-6);
}

TEST_F(CounterTest, AWriteCountsLikeARead) {
  const ChunkId chunk = rig_.allocate({large_chunk}, a_);
  EXPECT_EQ(rig_.use_and_apply(chunk, b_, 1.5 * large_pass, 1.5 * large_pass), 0u);
  EXPECT_EQ(rig_.use_and_apply(chunk, b_, 0, large_pass), 1u);
}

// Three passes by the peer, then one at home that takes one back: only the fifth by the peer moves
// the chunk.
TEST_F(CounterTest, UsesAtHomeTakeBack) {
  const ChunkId chunk = rig_.allocate({large_chunk}, a_);
  for (int i = 0; i < 3; ++i) rig_.use_and_apply(chunk, b_, large_pass);
  EXPECT_EQ(rig_.use_and_apply(chunk, a_, large_pass), 0u);
  EXPECT_EQ(rig_.use_and_apply(chunk, b_, large_pass), 0u);
  EXPECT_EQ(rig_.use_and_apply(chunk, b_, large_pass), 1u);
  EXPECT_EQ(rig_.at(chunk), b_);
}

TEST_F(CounterTest, EvenSharesNeverMove) {
  const ChunkId chunk = rig_.allocate({large_chunk}, a_);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(rig_.use_and_apply(chunk, b_, large_pass) + rig_.use_and_apply(chunk, a_, large_pass),
              0u);
  }
}

TEST_F(CounterTest, AMoveStartsTheCountAnew) {
  const ChunkId chunk = rig_.allocate({large_chunk}, a_);
  for (int i = 0; i < 3; ++i) rig_.use_and_apply(chunk, c_, large_pass);
  rig_.tables().moved(chunk, b_);  // Moved by something else: that pays for the three passes.
  for (int i = 0; i < 3; ++i) EXPECT_EQ(rig_.use_and_apply(chunk, c_, large_pass), 0u) << i;
  EXPECT_EQ(rig_.use_and_apply(chunk, c_, large_pass), 1u);
}

TEST_F(CounterTest, WaitsForRoomAndForLeave) {
  const ChunkId chunk = rig_.allocate({large_chunk}, a_);
  const ChunkId filling = rig_.allocate(std::vector<std::uint64_t>(10, large_chunk), b_);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(rig_.use_and_apply(chunk, b_, large_pass), 0u);
  rig_.free(filling);
  rig_.tables().row(chunk).movable = false;
  EXPECT_EQ(rig_.use_and_apply(chunk, b_, large_pass), 0u);
  rig_.tables().row(chunk).movable = true;
  EXPECT_EQ(rig_.use_and_apply(chunk, b_, large_pass), 1u);
}

TEST_F(CounterTest, LeavesAChunkWhereAllItsUsersReachIt) {
  rig_.tables().costs().access_rate(c_, b_) = 0;
  rig_.tables().costs().rank();
  const ChunkId chunk = rig_.allocate({large_chunk}, a_);
  rig_.use_and_apply(chunk, c_, 1000);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(rig_.use_and_apply(chunk, b_, large_pass), 0u);
}

TEST(CounterAlone, OneGpuPullsItsChunksFromTheHostOnceAndKeepsThem) {
  PolicyRig rig(counter_kind(), PolicyMachine::h200(1, 2 * large_chunk, 10 * large_chunk));
  const ChunkId first = rig.allocate({large_chunk, large_chunk, large_chunk}, rig.host_place());
  const auto use_all = [&] {
    for (std::size_t i = 0; i < 3; ++i) rig.use_and_apply(next(first, i), gpu_place(0), large_pass);
  };
  rig.run(std::chrono::milliseconds(200), use_all);
  // There is no room for a third.
  EXPECT_EQ(rig.places_of(first, 3), (std::vector<std::size_t>{0, 0, 1}));
  const std::size_t made = rig.made().size();
  rig.run(std::chrono::seconds(2), use_all);
  EXPECT_EQ(rig.made().size(), made);
}

TEST_F(CounterTest, ForgetsChunksThatAreGone) {
  const ChunkId chunk = rig_.allocate({large_chunk}, a_);
  for (int i = 0; i < 3; ++i) rig_.use_and_apply(chunk, b_, large_pass);
  rig_.free(chunk);
  ASSERT_EQ(rig_.allocate({large_chunk}, a_), chunk);
  EXPECT_EQ(rig_.use_and_apply(chunk, b_, large_pass), 0u);
}

}  // namespace
}  // namespace v1
}  // namespace vma
