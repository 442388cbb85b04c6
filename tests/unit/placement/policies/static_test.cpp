// Goal: `static` puts each chunk at the device's fastest place with room and never moves one;
// `stay_put` does nothing. Method: hand-computed places on a machine of a few MiB.
#include "unit/placement/policies/policy_rig.hpp"

#include "base/units.hpp"
#include "placement/policies/built_in_policies.hpp"

#include <string>
#include <string_view>

namespace vma {
inline namespace v1 {
namespace {

using Places = std::vector<std::size_t>;

TEST(StaticSpill, LaysEachChunkByItselfWhereItFits) {
  // 9 MiB of HBM: 4 and 4 fit, the third 4 does not and goes to the host, the last 1 fits again.
  PolicyRig rig(static_kind(), PolicyMachine::h200(1, 9 * MiB, 64 * MiB));
  const ChunkId first = rig.request(13 * MiB, 4 * MiB, gpu_place(0));
  EXPECT_EQ(rig.places_of(first, 4), (Places{0, 0, 1, 0}));
}

TEST(StaticSpill, SpillsInTheOrderOfTheMachine) {
  // As on GH200, host memory over C2C is faster than a peer and comes before it.
  PolicyMachine machine = PolicyMachine::h200(2, 4 * MiB, 4 * MiB);
  machine.costs.access_rate(gpu_place(0), gpu_place(1)) = 130e9;
  machine.costs.access_rate(gpu_place(0), gpu_place(2)) = 400e9;
  PolicyRig rig(static_kind(), machine);
  EXPECT_EQ(rig.places_of(rig.request(12 * MiB, 4 * MiB, gpu_place(0)), 3), (Places{0, 2, 1}));
}

TEST(StaticSpill, LeavesOutPlacesThatTheDeviceCannotReach) {
  PolicyMachine machine = PolicyMachine::h200(2, 4 * MiB, 64 * MiB);
  machine.costs.access_rate(gpu_place(0), gpu_place(1)) = 0;
  PolicyRig rig(static_kind(), machine);
  EXPECT_EQ(rig.places_of(rig.request(8 * MiB, 4 * MiB, gpu_place(0)), 2), (Places{0, 2}));
}

TEST(StaticSpill, LetsTheDefaultStandWhereNothingHasRoom) {
  PolicyRig rig(static_kind(), PolicyMachine::h200(1, 4 * MiB, 4 * MiB));
  std::vector<PlaceId> chunks(3, gpu_place(0));
  rig.policy().on_alloc({12 * MiB, 4 * MiB, gpu_place(0), ""}, rig.snapshot(), chunks);
  EXPECT_EQ(chunks, (std::vector{gpu_place(0), gpu_place(1), gpu_place(0)}));
}

TEST(StaticSpill, MovesNothingEver) {
  PolicyRig rig(static_kind(), PolicyMachine::h200(2, 8 * MiB, 64 * MiB));
  const ChunkId far = rig.request(8 * MiB, 4 * MiB, gpu_place(0));
  EXPECT_EQ(rig.run(std::chrono::seconds(2),
                    [&] { EXPECT_TRUE(rig.use(far, gpu_place(1), 4e6).empty()); }),
            0u);
  EXPECT_TRUE(rig.press({gpu_place(0), 4 * MiB, gpu_place(0)}).empty());
}

TEST(StayPut, LetsEveryDefaultStandAndMovesNothing) {
  PolicyRig rig(stay_put_kind(), PolicyMachine::h200(2, 8 * MiB, 64 * MiB));
  std::vector<PlaceId> chunks{gpu_place(2), gpu_place(1)};
  rig.policy().on_alloc({8 * MiB, 4 * MiB, gpu_place(0), ""}, rig.snapshot(), chunks);
  EXPECT_EQ(chunks, (std::vector{gpu_place(2), gpu_place(1)}));
  const ChunkId chunk = rig.allocate({4 * MiB}, rig.host_place());
  EXPECT_EQ(rig.run(std::chrono::seconds(2),
                    [&] { EXPECT_TRUE(rig.use(chunk, gpu_place(1), 4e6).empty()); }),
            0u);
  EXPECT_TRUE(rig.press({gpu_place(0), 4 * MiB, gpu_place(0)}).empty());
}

TEST(StayPut, OnlyItAndStaticIgnoreUses) {
  for (const std::string_view name : built_in_policies().names()) {
    const bool ignores = name == "static" || name == "stay_put";
    EXPECT_EQ(ignores_uses(*make_policy(std::string(name))), ignores) << name;
  }
}

}  // namespace
}  // namespace v1
}  // namespace vma
