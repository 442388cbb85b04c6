// Goal: the total size of an allocation decides between HBM and host memory. Method: places and
// moves computed by hand from the source's rule, with a limit of 8 MiB instead of 2 GiB.
#include "unit/placement/policies/policy_rig.hpp"

#include "base/units.hpp"
#include "lab/policies/lab_policies.hpp"

namespace vma {
inline namespace v1 {
namespace {

using namespace std::chrono_literals;
using Places = std::vector<std::size_t>;

const PolicyRig::Values limit_8_mib{{"limit", 8.0 * MiB}};

TEST(SizeThreshold, ItsOwnLimitIsTwoGiB) {
  EXPECT_EQ(policy_values(size_threshold_kind()).count("limit"), 2 * GiB);
}

// `0 < size < limit` goes to the GPU: exactly the limit is a cache, however small its chunks.
TEST(SizeThreshold, TheWholeAllocationCounts) {
  PolicyRig rig(size_threshold_kind(), PolicyMachine::h200(1, 64 * MiB, 64 * MiB), limit_8_mib);
  EXPECT_EQ(rig.places_of(rig.request(8 * MiB - 1, 2 * MiB, gpu_place(0)), 4),
            (Places{0, 0, 0, 0}));
  EXPECT_EQ(rig.places_of(rig.request(8 * MiB, 2 * MiB, gpu_place(0)), 4), (Places{1, 1, 1, 1}));
}

TEST(SizeThreshold, SpillsBothWays) {
  PolicyRig rig(size_threshold_kind(), PolicyMachine::h200(1, 8 * MiB, 6 * MiB), limit_8_mib);
  // A cache of four chunks: three fit the host, and HBM takes the fourth since nothing else is
  // left.
  EXPECT_EQ(rig.places_of(rig.request(8 * MiB, 2 * MiB, gpu_place(0)), 4), (Places{1, 1, 1, 0}));
  EXPECT_EQ(rig.places_of(rig.request(6 * MiB, 2 * MiB, gpu_place(0)), 3), (Places{0, 0, 0}));
}

TEST(SizeThreshold, ComputeDataComesBackOnDemandAndCacheDataDoesNot) {
  PolicyRig rig(size_threshold_kind(), PolicyMachine::h200(2, 8 * MiB, 64 * MiB), limit_8_mib);
  const ChunkId full = rig.allocate({7 * MiB}, gpu_place(1));
  const ChunkId weights = rig.allocate({2 * MiB, 2 * MiB}, rig.host_place());
  const ChunkId keys = rig.allocate({4 * MiB, 4 * MiB}, rig.host_place());
  rig.advance(1ms);
  EXPECT_TRUE(rig.use(weights, gpu_place(1), 2e6).empty()) << "no room";
  EXPECT_EQ(proposals(rig.use(weights, gpu_place(0), 2e6)), "chunk 1 to 0");
  EXPECT_TRUE(rig.use(keys, gpu_place(0), 4e6).empty());
  rig.free(full);
  rig.advance(1ms);
  EXPECT_EQ(proposals(rig.use(weights, gpu_place(1), 2e6)), "chunk 1 to 1");
}

TEST(SizeThreshold, OneDrainWishesForNoMoreThanThereIsRoomFor) {
  PolicyRig rig(size_threshold_kind(), PolicyMachine::h200(1, 3 * MiB, 64 * MiB), limit_8_mib);
  const ChunkId weights = rig.allocate({2 * MiB, 2 * MiB}, rig.host_place());
  EXPECT_EQ(proposals(rig.use(weights, gpu_place(0), 2e6)), "chunk 0 to 0");
  EXPECT_TRUE(rig.use(weights, gpu_place(0), 2e6).empty()) << "proposed for already";
  EXPECT_TRUE(rig.use(next(weights), gpu_place(0), 2e6).empty()) << "2 of 3 MiB are taken";
}

TEST(SizeThreshold, StaysInAnyHbmAndWhereItIsTold) {
  PolicyRig rig(size_threshold_kind(), PolicyMachine::h200(2, 8 * MiB, 64 * MiB), limit_8_mib);
  const ChunkId at_peer = rig.allocate({2 * MiB}, gpu_place(1));
  EXPECT_TRUE(rig.use(at_peer, gpu_place(0), 2e6).empty());
  const ChunkId pinned = rig.allocate({2 * MiB}, rig.host_place());
  rig.tables().row(pinned).movable = false;
  EXPECT_TRUE(rig.use(pinned, gpu_place(0), 2e6).empty());
  PolicyRig never(size_threshold_kind(), PolicyMachine::h200(1, 8 * MiB, 64 * MiB),
                  {{"limit", 8.0 * MiB}, {"on_demand", 0}});
  EXPECT_TRUE(never.use(never.allocate({2 * MiB}, never.host_place()), gpu_place(0), 2e6).empty());
}

// Two islands with one host: at GPU 1 the chunk would be out of GPU 0's reach.
TEST(SizeThreshold, GoesNowhereThatAUserCannotReach) {
  PolicyMachine machine = PolicyMachine::h200(2, 8 * MiB, 64 * MiB);
  machine.costs.access_rate(gpu_place(0), gpu_place(1)) = 0;
  PolicyRig rig(size_threshold_kind(), machine, {{"limit", 8.0 * MiB}, {"on_demand", 1}});
  const ChunkId chunk = rig.allocate({2 * MiB}, rig.host_place());
  rig.tables().used(chunk, gpu_place(0), 2e6, 0);
  EXPECT_TRUE(rig.use(chunk, gpu_place(1), 2e6).empty());
}

// Numbers are reused: an old cache's number now names compute data.
TEST(SizeThreshold, ForgetsWhatIsGone) {
  PolicyRig rig(size_threshold_kind(), PolicyMachine::h200(1, 32 * MiB, 64 * MiB), limit_8_mib);
  const ChunkId keys = rig.allocate({8 * MiB}, rig.host_place());
  EXPECT_TRUE(rig.use(keys, gpu_place(0), 2e6).empty());
  rig.free(keys);
  const ChunkId weights = rig.allocate({2 * MiB}, rig.host_place());
  ASSERT_EQ(weights, keys);
  EXPECT_EQ(proposals(rig.use(weights, gpu_place(0), 2e6)), "chunk 0 to 0");
}

TEST(SizeThreshold, PressureTakesCacheDataLongestUnusedFirst) {
  PolicyRig rig(size_threshold_kind(), PolicyMachine::h200(1, 64 * MiB, 6 * MiB), limit_8_mib);
  const ChunkId weights = rig.allocate({2 * MiB}, gpu_place(0));
  const ChunkId keys = rig.allocate({4 * MiB, 4 * MiB}, gpu_place(0));
  rig.advance(1s);
  rig.use(keys, gpu_place(0), 4e6);
  // Its first chunk was just used, so the second leaves; then the host is full.
  EXPECT_EQ(proposals(rig.press({gpu_place(0), MiB, gpu_place(0)})), "chunk 2 to 1");
  EXPECT_EQ(proposals(rig.press({gpu_place(0), 16 * MiB, gpu_place(0)})), "chunk 2 to 1");
  EXPECT_EQ(rig.at(weights), gpu_place(0));
}

TEST(SizeThreshold, IsQuiescentOnSteadyInput) {
  PolicyRig rig(size_threshold_kind(), PolicyMachine::h200(2, 8 * MiB, 64 * MiB), limit_8_mib);
  const ChunkId weights = rig.allocate({2 * MiB, 2 * MiB}, rig.host_place());
  const ChunkId keys = rig.allocate({4 * MiB, 4 * MiB}, rig.host_place());
  const auto feed = [&] {
    for (const std::size_t gpu : {0, 1}) {
      rig.use_and_apply(weights, gpu_place(gpu), 2e6);
      rig.use_and_apply(next(weights), gpu_place(gpu), 2e6);
      rig.use_and_apply(keys, gpu_place(gpu), 4e6);
    }
  };
  EXPECT_EQ(rig.run(1s, feed), 2u);
  EXPECT_EQ(rig.run(10s, feed), 0u);
}

}  // namespace
}  // namespace v1
}  // namespace vma
