// Goal: chunks are striped in proportion to bandwidth, with correct remainders and within the
// capacities. Method: stripes computed by hand from the shares of the BW-AWARE paper, b_i over the
// sum of all.
#include "unit/placement/policies/policy_rig.hpp"

#include "base/units.hpp"
#include "placement/policies/built_in_policies.hpp"

#include <algorithm>

namespace vma {
inline namespace v1 {
namespace {

using Places = std::vector<std::size_t>;

/// One GPU that reads its HBM three times as fast as the host: shares 3/4 and 1/4.
PolicyMachine three_to_one(std::uint64_t hbm_bytes, std::uint64_t host_bytes) {
  PolicyMachine machine = PolicyMachine::h200(1, hbm_bytes, host_bytes);
  machine.costs.access_rate(gpu_place(0), gpu_place(0)) = 300e9;
  machine.costs.access_rate(gpu_place(0), gpu_place(1)) = 100e9;
  return machine;
}

std::ptrdiff_t count(const Places& places, std::size_t at) {
  return std::ranges::count(places, at);
}

// Credit before each choice, in chunks: (.75 .25) HBM, (.5 .5) HBM as the faster of equals, (.25
// .75) host, (1 0) HBM; then the credits are even and the cycle repeats.
TEST(BwInterleave, StripesByCredit) {
  PolicyRig rig(bw_interleave_kind(), three_to_one(64 * MiB, 64 * MiB));
  EXPECT_EQ(rig.places_of(rig.request(32 * MiB, 4 * MiB, gpu_place(0)), 8),
            (Places{0, 0, 1, 0, 0, 0, 1, 0}));
}

TEST(BwInterleave, RemaindersLiveOnFromOneAllocationToTheNext) {
  PolicyRig rig(bw_interleave_kind(), three_to_one(64 * MiB, 64 * MiB));
  Places places;
  for (int i = 0; i < 4; ++i) {
    places.push_back(index(rig.at(rig.request(4 * MiB, 4 * MiB, gpu_place(0)))));
  }
  EXPECT_EQ(places, (Places{0, 0, 1, 0}));
}

TEST(BwInterleave, BytesCountAndNotChunks) {
  // The last chunk is short. Credit in MiB: (3 1) HBM, (2 2) HBM, (-2+.75 2+.25) host.
  PolicyRig rig(bw_interleave_kind(), three_to_one(64 * MiB, 64 * MiB));
  EXPECT_EQ(rig.places_of(rig.request(9 * MiB, 4 * MiB, gpu_place(0)), 3), (Places{0, 0, 1}));
  // The host had 2.25 and paid 1; HBM is at -1.25. Next (1.75 2.25): host.
  EXPECT_EQ(index(rig.at(rig.request(4 * MiB, 4 * MiB, gpu_place(0)))), 1u);
}

// The host is full from the third chunk on, with credits of -.25 for the host and .25 for HBM,
// which then stay. Afterwards (1 0) HBM, (.75 .25) HBM, (.5 .5) HBM, (.25 .75) host. If a full host
// gained credit, it would come first.
TEST(BwInterleave, GoesElsewhereWhenAPlaceIsFullAndOwesItNothing) {
  PolicyRig rig(bw_interleave_kind(), three_to_one(64 * MiB, 4 * MiB));
  const ChunkId first = rig.request(16 * MiB, 4 * MiB, gpu_place(0));
  EXPECT_EQ(rig.places_of(first, 4), (Places{0, 0, 1, 0}));
  EXPECT_EQ(rig.places_of(rig.request(16 * MiB, 4 * MiB, gpu_place(0)), 4), (Places{0, 0, 0, 0}));
  rig.free(first);
  EXPECT_EQ(rig.places_of(rig.request(16 * MiB, 4 * MiB, gpu_place(0)), 4), (Places{0, 0, 0, 1}));
}

// 3800, 390 and 52 GB/s: the host has 1.2 % of 4242 and is left out; the peer has 390 of 4190, or
// 9.3 of 100 chunks.
TEST(BwInterleave, LeavesOutWhatAddsTooLittle) {
  PolicyRig rig(bw_interleave_kind(), PolicyMachine::h200(2, GiB, GiB));
  const Places places = rig.places_of(rig.request(100 * MiB, MiB, gpu_place(0)), 100);
  EXPECT_EQ(count(places, 2), 0);
  EXPECT_GE(count(places, 1), 9);
  EXPECT_LE(count(places, 1), 10);
}

// Without a minimum share the host has 52 of 4242, or 12.3 of 1000 chunks.
TEST(BwInterleave, TakesAllPlacesInIfAsked) {
  PolicyRig rig(bw_interleave_kind(), PolicyMachine::h200(2, GiB, GiB), {{"min_share", 0}});
  const Places places = rig.places_of(rig.request(1000 * MiB, MiB, gpu_place(0)), 1000);
  EXPECT_GE(count(places, 2), 12);
  EXPECT_LE(count(places, 2), 13);
}

// Seven peers share one port of 390 GB/s: 90.7 of 100 chunks still go to the device's own HBM, and
// 9.3 are spread over the peers. With seven ports the peers would get 42 of 100.
TEST(BwInterleave, AllPeersTogetherCountAsOnePort) {
  PolicyRig rig(bw_interleave_kind(), PolicyMachine::h200(8, GiB, GiB));
  const Places places = rig.places_of(rig.request(200 * MiB, MiB, gpu_place(3)), 200);
  EXPECT_GE(count(places, 3), 181);
  EXPECT_LE(count(places, 3), 182);
  for (const std::size_t peer : {0, 1, 2, 4, 5, 6, 7}) {
    EXPECT_GE(count(places, peer), 2) << peer;
    EXPECT_LE(count(places, peer), 3) << peer;
  }
}

TEST(BwInterleave, LeavesPeersOutIfAskedAndWhereTheyAreOutOfReach) {
  PolicyRig without(bw_interleave_kind(), PolicyMachine::h200(2, GiB, GiB), {{"peers", 0}});
  EXPECT_EQ(count(without.places_of(without.request(40 * MiB, MiB, gpu_place(1)), 40), 1), 40);
  PolicyMachine island = PolicyMachine::h200(2, GiB, GiB);
  island.costs.access_rate(gpu_place(1), gpu_place(0)) = 0;
  PolicyRig alone(bw_interleave_kind(), island);
  EXPECT_EQ(count(alone.places_of(alone.request(40 * MiB, MiB, gpu_place(1)), 40), 1), 40);
}

// The striped places are full, so the rest goes to the device's fastest place, even if it was left
// out.
TEST(BwInterleave, FallsBackOnTheFastestPlaceWithRoom) {
  PolicyRig rig(bw_interleave_kind(), PolicyMachine::h200(1, 2 * MiB, GiB));
  EXPECT_EQ(rig.places_of(rig.request(4 * MiB, MiB, gpu_place(0)), 4), (Places{0, 0, 1, 1}));
}

TEST(BwInterleave, MovesNothing) {
  PolicyRig rig(bw_interleave_kind(), PolicyMachine::h200(2, 8 * MiB, 64 * MiB));
  const ChunkId chunk = rig.request(8 * MiB, MiB, gpu_place(0));
  EXPECT_EQ(rig.run(std::chrono::seconds(2),
                    [&] { EXPECT_TRUE(rig.use(chunk, gpu_place(1), 1e6).empty()); }),
            0u);
}

}  // namespace
}  // namespace v1
}  // namespace vma
