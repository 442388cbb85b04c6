// Goal: `lifetime_class` keeps HBM for short-lived, heavily used chunks as long as such requests
// come. Method: HBM for ten chunks. Each step of 200 ms allocates five chunks that are used twice
// and freed after 20 ms, and one that is used once and stays.
#include "lab/policies/lab_policies.hpp"
#include "placement/auto/auto.hpp"

#include "unit/placement/policies/policy_rig.hpp"

#include <algorithm>

namespace vma {
inline namespace v1 {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t bytes = 64 << 20;
constexpr std::size_t scratch_chunks = 5;
const PlaceId home = gpu_place(0);

class Steps {
 public:
  explicit Steps(const PolicyKind& kind)
      : rig(kind, PolicyMachine::h200(1, 10 * bytes, 1000 * bytes)) {}

  void use(ChunkId first, std::size_t chunks) {
    for (std::size_t i = 0; i < chunks; ++i)
      rig.use_and_apply(next(first, i), home, static_cast<double>(bytes));
  }
  void last() {
    lasting.push_back(rig.request(bytes, bytes, home));
    use(lasting.back(), 1);
  }
  /// Returns how many short-lived chunks are in HBM.
  std::size_t scratch() {
    const ChunkId first = rig.request(scratch_chunks * bytes, bytes, home);
    const std::vector<std::size_t> places = rig.places_of(first, scratch_chunks);
    for (int i = 0; i < 2; ++i) {
      use(first, scratch_chunks);
      rig.apply(rig.tick());
    }
    rig.free(first);
    return static_cast<std::size_t>(std::ranges::count(places, index(home)));
  }
  std::size_t step() {
    const std::size_t in_hbm = scratch();
    last();
    rig.run(180ms);
    return in_hbm;
  }
  std::size_t lasting_in_hbm() const {
    std::size_t count = 0;
    for (const ChunkId chunk : lasting) count += rig.at(chunk) == home ? 1 : 0;
    return count;
  }

  PolicyRig rig;
  std::vector<ChunkId> lasting;
};

TEST(LifetimeClass, KeepsRoomForWhatLivesShort) {
  Steps steps(lifetime_class_kind()), inner(cost_benefit_kind());
  std::size_t least = scratch_chunks, inner_least = scratch_chunks;
  for (int i = 0; i < 12; ++i) {
    least = std::min(least, steps.step());
    inner_least = std::min(inner_least, inner.step());
  }
  EXPECT_EQ(least, scratch_chunks);
  EXPECT_EQ(steps.lasting_in_hbm(), 5u);  // The rest of the ten.
  EXPECT_EQ(inner_least, 0u);             // First come, first served.
}

TEST(LifetimeClass, ForgetsDemandThatDoesNotComeAgain) {
  Steps steps(lifetime_class_kind());
  for (int i = 0; i < 12; ++i) steps.step();
  const std::size_t before = steps.lasting_in_hbm();
  steps.rig.run(5s);  // More than two windows.
  for (int i = 0; i < 3; ++i) steps.last();
  EXPECT_EQ(steps.lasting_in_hbm(), before + 3);
}

TEST(LifetimeClass, WhatIsIdleMakesRoom) {
  Steps steps(lifetime_class_kind());
  for (int i = 0; i < 10; ++i) {
    steps.last();
    steps.rig.run(200ms);
  }
  ASSERT_EQ(steps.lasting_in_hbm(), 10u);
  EXPECT_EQ(steps.scratch(), 0u);
  steps.rig.run(180ms);
  for (int i = 0; i < 3; ++i) {
    steps.scratch();
    steps.rig.run(180ms);
  }
  EXPECT_EQ(steps.lasting_in_hbm(), 5u);
  EXPECT_EQ(steps.scratch(), scratch_chunks);
}

// Hot memory that the policy was not asked to place does not get the room either; it does once no
// more requests come.
TEST(LifetimeClass, WhatItsInnerPolicyMovesLeavesTheRoom) {
  Steps steps(lifetime_class_kind());
  const ChunkId hot = steps.rig.allocate(std::vector<std::uint64_t>(8, bytes), gpu_place(1));
  const auto in_hbm = [&] {
    const std::vector<std::size_t> places = steps.rig.places_of(hot, 8);
    return std::ranges::count(places, index(home));
  };
  for (int i = 0; i < 20; ++i) {
    const std::size_t scratch = steps.scratch();
    EXPECT_EQ(scratch, scratch_chunks) << "step " << i;
    steps.rig.run(180ms, [&] { steps.use(hot, 8); });
  }
  EXPECT_EQ(in_hbm(), 5);
  steps.rig.run(10s, [&] { steps.use(hot, 8); });
  EXPECT_EQ(in_hbm(), 8);
}

TEST(LifetimeClass, IsItsInnerPolicyWithoutRequests) {
  Steps steps(lifetime_class_kind()), inner(cost_benefit_kind());
  for (Steps* each : {&steps, &inner}) {
    const ChunkId cold = each->rig.allocate(std::vector<std::uint64_t>(10, bytes), home);
    const ChunkId hot = each->rig.allocate(std::vector<std::uint64_t>(4, bytes), gpu_place(1));
    each->use(cold, 10);
    each->rig.run(3s, [&] { each->use(hot, 4); });
  }
  ASSERT_FALSE(inner.rig.made().empty());
  ASSERT_EQ(steps.rig.made().size(), inner.rig.made().size());
  for (std::size_t i = 0; i < inner.rig.made().size(); ++i) {
    EXPECT_EQ(steps.rig.made()[i].chunk, inner.rig.made()[i].chunk);
    EXPECT_EQ(steps.rig.made()[i].to, inner.rig.made()[i].to);
  }
}

}  // namespace
}  // namespace v1
}  // namespace vma
