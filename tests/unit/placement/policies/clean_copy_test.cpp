// Goal: `clean_copy` leaves a copy behind when a chunk comes from host memory, and evicts the chunk
// to where that copy is. Method: hand-computed decisions for two GPUs like H200s and two host
// nodes, the first of which is faster for both GPUs.
#include "placement/policies/built_in_policies.hpp"
#include "placement/policies/cost_benefit.hpp"

#include "unit/placement/policies/policy_rig.hpp"

namespace vma {
inline namespace v1 {
namespace {

constexpr PlaceId a = gpu_place(0), b = gpu_place(1);
constexpr PlaceId far_host = gpu_place(3);  // The near host node is place 2.

PolicyMachine two_hosts() {
  const PolicyMachine one = PolicyMachine::h200(2, 10 * small_chunk, 100 * small_chunk);
  PolicyMachine two{MachineCosts(2, 4),
                    {10 * small_chunk, 10 * small_chunk, 100 * small_chunk, 100 * small_chunk}};
  const auto like = [](std::size_t place) { return gpu_place(place < 3 ? place : 2); };
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t k = 0; k < 4; ++k) {
      const PlaceId from = gpu_place(i), to = gpu_place(k);
      if (i < 2) {
        two.costs.access_rate(from, to) = one.costs.access_rate(like(i), like(k));
        two.costs.access_latency(from, to) = one.costs.access_latency(like(i), like(k));
      }
      if (i == k) continue;
      const bool both_hosts = i >= 2 && k >= 2;
      two.costs.copy_rate(from, to) = both_hosts ? 54e9 : one.costs.copy_rate(like(i), like(k));
      two.costs.move_fixed(from, to) = std::chrono::microseconds(200);
      two.costs.stall_fixed(from, to) = std::chrono::microseconds(200);
    }
  }
  for (const PlaceId gpu : {a, b}) two.costs.access_rate(gpu, far_host) = 26e9;
  two.costs.rank();
  return two;
}

class CleanCopyTest : public testing::Test {
 protected:
  /// A chunk that came from the far host to A, which it filled; B is full as well.
  ChunkId promote(PolicyRig& rig) {
    const ChunkId chunk = rig.allocate({small_chunk}, far_host);
    rig.tick();
    for (int i = 0; i < 100 && rig.at(chunk) != a; ++i) {
      rig.use_and_apply(chunk, a, 1e9);
      rig.apply(rig.tick());
    }
    EXPECT_EQ(rig.at(chunk), a);
    rig.allocate(std::vector<std::uint64_t>(10, small_chunk), b);
    rig.tick();
    return chunk;
  }
  PolicyRig rig_{clean_copy_kind(), two_hosts()};
};

TEST_F(CleanCopyTest, WhatComesFromAHostLeavesACopyThere) {
  const ChunkId chunk = promote(rig_);
  ASSERT_EQ(rig_.made().size(), 1u);
  EXPECT_EQ(rig_.made()[0].chunk, chunk);
  EXPECT_TRUE(rig_.made()[0].keep_copy);
}

// `cost_benefit` takes the faster host, where a copy would have to be made; the clean copy is at
// the other one.
TEST_F(CleanCopyTest, WhatIsPutOutGoesToItsCopy) {
  PolicyRig inner(cost_benefit_kind(), two_hosts());
  EXPECT_EQ(promote(inner), promote(rig_));
  EXPECT_EQ(wishes(inner.press({a, small_chunk, a})), "chunk 0 to 2");
  const Plan plan = rig_.press({a, small_chunk, a});
  EXPECT_EQ(wishes(plan), "chunk 0 to 3");
  EXPECT_NE(plan.moves()[0].reason.find("a clean copy"), std::string::npos);
  EXPECT_FALSE(plan.moves()[0].keep_copy) << "it takes the copy with it";
}

TEST_F(CleanCopyTest, OfWhatWasWrittenToNoCopyIsExpected) {
  const ChunkId chunk = promote(rig_);
  rig_.use(chunk, a, 0, 1e3);
  EXPECT_EQ(wishes(rig_.press({a, small_chunk, a})), "chunk 0 to 2");
}

TEST_F(CleanCopyTest, ACopyIsUsedOnceAndForgottenWithItsChunk) {
  const ChunkId chunk = promote(rig_);
  ASSERT_EQ(rig_.apply(rig_.press({a, small_chunk, a})), 1u);
  ASSERT_EQ(rig_.at(chunk), far_host);
  rig_.free(chunk);
  ASSERT_EQ(rig_.allocate({small_chunk}, a), chunk);
  rig_.tick();
  EXPECT_EQ(wishes(rig_.press({a, small_chunk, a})), "chunk 0 to 2");
}

// A peer is not a host: chunks from there leave no copy, and chunks going there need none.
TEST_F(CleanCopyTest, BetweenGpusNothingIsKept) {
  const ChunkId chunk = rig_.allocate({small_chunk}, b);
  rig_.tick();
  for (int i = 0; i < 100 && rig_.at(chunk) != a; ++i) {
    rig_.use_and_apply(chunk, a, 1e9);
    rig_.apply(rig_.tick());
  }
  ASSERT_EQ(rig_.made().size(), 1u);
  EXPECT_FALSE(rig_.made()[0].keep_copy);
}

// With `harvest` inside, a peer with room still takes the victim: remote use is faster there.
TEST_F(CleanCopyTest, HarvestInsideSendsToLenders) {
  PolicyRig rig(clean_copy_kind(), two_hosts(), {{"harvest", 1}});
  const ChunkId chunk = rig.allocate({small_chunk}, far_host);
  rig.tick();
  for (int i = 0; i < 100 && rig.at(chunk) != a; ++i) {
    rig.use_and_apply(chunk, a, 1e9);
    rig.apply(rig.tick());
  }
  ASSERT_EQ(rig.at(chunk), a);
  EXPECT_EQ(wishes(rig.press({a, small_chunk, a})), "chunk 0 to 1");
}

}  // namespace
}  // namespace v1
}  // namespace vma
