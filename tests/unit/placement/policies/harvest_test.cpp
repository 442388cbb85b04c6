// Goal: `harvest` puts victims at peers that can spare room, in the topology's order, and never
// lends a chunk twice. Method: machines like H200s with HBM for ten chunks, one of which a lender
// keeps free.
#include "placement/policies/built_in_policies.hpp"
#include "placement/policies/cost_benefit.hpp"

#include "unit/placement/policies/policy_rig.hpp"

namespace vma {
inline namespace v1 {
namespace {

using namespace std::chrono_literals;

class HarvestTest : public testing::Test {
 protected:
  PolicyRig rig_{harvest_kind(), PolicyMachine::h200(3, 10 * small_chunk, 100 * small_chunk)};
  const PlaceId a_ = gpu_place(0), b_ = gpu_place(1), c_ = gpu_place(2);
  std::size_t press(PlaceId at, std::size_t chunks) {
    return rig_.apply(rig_.press({at, chunks * small_chunk, at}));
  }
};

// B has room for one chunk, its reserve, which `cost_benefit` would take. C lends instead.
TEST_F(HarvestTest, TakesTheFirstPeerThatKeepsItsReserve) {
  PolicyRig inner(cost_benefit_kind(), PolicyMachine::h200(3, 10 * small_chunk, 100 * small_chunk));
  for (PolicyRig* rig : {&rig_, &inner}) {
    rig->allocate(small_chunks(1), a_);
    rig->allocate(small_chunks(9), b_);
    rig->tick();
  }
  EXPECT_EQ(wishes(inner.press({a_, small_chunk, a_})), "chunk 0 to 1");
  EXPECT_EQ(wishes(rig_.press({a_, small_chunk, a_})), "chunk 0 to 2");
}

// B lends two of its ten: seven are its own and one is kept free. C lends none. Two go to the host.
TEST_F(HarvestTest, GoesToTheHostOnceNobodyLends) {
  const ChunkId first = rig_.allocate(small_chunks(4), a_);
  rig_.allocate(small_chunks(7), b_);
  rig_.allocate(small_chunks(9), c_);
  rig_.tick();
  EXPECT_EQ(press(a_, 4), 4u);
  EXPECT_EQ(rig_.places_of(first, 4), (std::vector<std::size_t>{1, 1, 3, 3}));
}

TEST_F(HarvestTest, WhatWasLentGoesToTheHostNotToASecondLender) {
  const ChunkId chunk = rig_.allocate(small_chunks(1), a_);
  rig_.tick();
  ASSERT_EQ(press(a_, 1), 1u);
  ASSERT_EQ(rig_.at(chunk), b_);
  EXPECT_EQ(press(b_, 1), 1u);
  EXPECT_EQ(rig_.at(chunk), rig_.host_place());  // C has all of its ten free.
}

// The guest leaves first, although the lender's own chunk has been idle for longer.
TEST_F(HarvestTest, ALenderGivesUpGuestsBeforeItsOwn) {
  const ChunkId own = rig_.allocate(small_chunks(1), b_);
  const ChunkId guest = rig_.allocate(small_chunks(1), a_);
  rig_.tick();
  press(a_, 1);
  ASSERT_EQ(rig_.at(guest), b_);
  rig_.use(guest, a_, 1e6);
  rig_.apply(rig_.tick());
  EXPECT_EQ(press(b_, 2), 2u);
  EXPECT_EQ(index(rig_.made()[1].chunk), index(guest));
  EXPECT_EQ(index(rig_.made()[2].chunk), index(own));
}

// If the host is faster than a peer, as behind NVLink-C2C, it is the first to take a victim.
TEST(HarvestOrder, IsTheTopologys) {
  PolicyMachine machine = PolicyMachine::h200(2, 10 * small_chunk, 100 * small_chunk);
  machine.costs.access_rate(gpu_place(0), gpu_place(2)) = 400e9;
  machine.costs.access_rate(gpu_place(0), gpu_place(1)) = 130e9;
  machine.costs.rank();
  PolicyRig rig(harvest_kind(), machine);
  rig.allocate(small_chunks(1), gpu_place(0));
  rig.tick();
  EXPECT_EQ(wishes(rig.press({gpu_place(0), small_chunk, gpu_place(0)})), "chunk 0 to 2");
}

TEST(HarvestOrder, OneGpuHasTheHostOnly) {
  PolicyRig rig(harvest_kind(), PolicyMachine::h200(1, 10 * small_chunk, 100 * small_chunk));
  const ChunkId first = rig.allocate(small_chunks(2), gpu_place(0));
  rig.tables().row(first).movable = false;
  rig.tick();
  EXPECT_EQ(wishes(rig.press({gpu_place(0), 2 * small_chunk, gpu_place(0)})), "chunk 1 to 1");
}

// A has ten chunks and gets five more; eleven are hot. It comes to rest with the spilled ones at
// lenders.
TEST_F(HarvestTest, RestsOnSteadyUse) {
  const ChunkId first = rig_.allocate(small_chunks(10), a_);
  const ChunkId more = rig_.allocate(small_chunks(5), rig_.host_place());
  const auto feed = [&] {
    for (std::size_t i = 0; i < 10; ++i) rig_.use_and_apply(next(first, i), a_, i < 6 ? 1e9 : 1e7);
    for (std::size_t i = 0; i < 5; ++i) rig_.use_and_apply(next(more, i), a_, 1e9);
  };
  rig_.run(20s, feed);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(rig_.at(next(first, i)), a_) << i;
  for (std::size_t i = 0; i < 5; ++i) EXPECT_LT(index(rig_.at(next(more, i))), 3u) << i;
  EXPECT_EQ(rig_.run(20s, feed), 0u);
}

TEST_F(HarvestTest, ForgetsChunksThatAreGone) {
  const ChunkId chunk = rig_.allocate(small_chunks(1), a_);
  rig_.tick();
  press(a_, 1);
  rig_.free(chunk);
  ASSERT_EQ(rig_.allocate(small_chunks(1), b_), chunk);
  rig_.tick();
  EXPECT_EQ(wishes(rig_.press({b_, small_chunk, b_})),
            "chunk 0 to 0");  // No longer a guest, so it may be lent.
}

}  // namespace
}  // namespace v1
}  // namespace vma
