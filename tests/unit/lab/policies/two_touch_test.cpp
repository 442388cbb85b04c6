// Goal: `two_touch` moves the chunks that `should_numa_migrate_memory` of Linux 6.3 would move.
// Method: uses in windows of 100 ms, with each of the rule's four steps computed by hand.
#include "unit/placement/policies/policy_rig.hpp"

#include "base/units.hpp"
#include "lab/policies/lab_policies.hpp"

#include <random>

namespace vma {
inline namespace v1 {
namespace {

using namespace std::chrono_literals;

/// Bytes of a chunk that each GPU uses, ten times per window.
using Mix = std::vector<double>;

class TwoTouchTest : public testing::Test {
 protected:
  static PolicyMachine machine() { return PolicyMachine::h200(3, 8 * MiB, 64 * MiB); }

  /// Feeds one window and returns the number of moves at its end.
  std::size_t window(ChunkId chunk, const Mix& mix) {
    return rig_.run(100ms, [&] { feed(chunk, mix); });
  }
  void feed(ChunkId chunk, const Mix& mix) {
    for (std::size_t gpu = 0; gpu < mix.size(); ++gpu) {
      if (mix[gpu] > 0) rig_.use_and_apply(chunk, gpu_place(gpu), mix[gpu]);
    }
  }

  PolicyRig rig_{two_touch_kind(), machine()};
};

// Steps 1 and 2: the second window in a row decides, and not before it ends.
TEST_F(TwoTouchTest, MovesAPrivateChunkAfterTwoWindows) {
  const ChunkId chunk = rig_.allocate({2 * MiB}, gpu_place(0));
  EXPECT_EQ(window(chunk, {0, 1e6}), 0u);
  EXPECT_EQ(rig_.run(90ms, [&] { feed(chunk, {0, 1e6}); }), 0u);
  EXPECT_EQ(rig_.run(10ms, [&] { feed(chunk, {0, 1e6}); }), 1u);
  EXPECT_EQ(rig_.at(chunk), gpu_place(1));
  EXPECT_EQ(rig_.made()[0].reason, "gpu(1) alone used it in two windows, 20.0 MB");
}

TEST_F(TwoTouchTest, ANewTopUserBreaksTheRow) {
  const ChunkId chunk = rig_.allocate({2 * MiB}, gpu_place(0));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(window(chunk, {0, 1e6, 0}), 0u);
    EXPECT_EQ(window(chunk, {0, 0, 1e6}), 0u);
  }
  EXPECT_EQ(rig_.at(chunk), gpu_place(0));
}

// As with faults, the last window with a use counts.
TEST_F(TwoTouchTest, AWindowWithoutUseBreaksNoRow) {
  const ChunkId chunk = rig_.allocate({2 * MiB}, rig_.host_place());
  EXPECT_EQ(window(chunk, {1e6}), 0u);
  EXPECT_EQ(rig_.run(300ms), 0u);
  EXPECT_EQ(window(chunk, {1e6}), 1u);
}

// Step 3: both windows together, 2 x 70 > 3 x 2 x 23 = 138.
TEST_F(TwoTouchTest, MovesASharedChunkToAUserThreeTimesAsActive) {
  const ChunkId chunk = rig_.allocate({2 * MiB}, gpu_place(0));
  EXPECT_EQ(window(chunk, {23, 70}), 0u);
  EXPECT_EQ(window(chunk, {23, 70}), 1u);
}

// Step 4, which decides for 5 against 4. Chunk a is at GPU 0 and b at GPU 1, both used 4 by GPU 0
// and 5 by GPU 1: GPU 1 requests 10 and its memory serves 9, GPU 0 requests 8 and its memory serves
// 9. 10 / 9 * 3/4 < 8 / 9.
TEST_F(TwoTouchTest, KeepsASharedChunkWithinTheHysteresis) {
  const ChunkId a = rig_.allocate({2 * MiB}, gpu_place(0));
  const ChunkId b = rig_.allocate({2 * MiB}, gpu_place(1));
  const auto both = [&] {
    feed(a, {4, 5});
    feed(b, {4, 5});
  };
  EXPECT_EQ(rig_.run(2s, both), 0u);
}

// The same without the hysteresis: 10 / 9 > 8 / 9, so a goes to GPU 1.
TEST_F(TwoTouchTest, TheHysteresisIsAParameter) {
  PolicyRig rig(two_touch_kind(), machine(), {{"ratio", 1}});
  const ChunkId a = rig.allocate({2 * MiB}, gpu_place(0));
  const ChunkId b = rig.allocate({2 * MiB}, gpu_place(1));
  const auto both = [&] {
    for (const ChunkId chunk : {a, b}) {
      rig.use_and_apply(chunk, gpu_place(0), 4);
      rig.use_and_apply(chunk, gpu_place(1), 5);
    }
  };
  EXPECT_EQ(rig.run(200ms, both), 1u);
  EXPECT_EQ(rig.at(a), gpu_place(1));
  EXPECT_EQ(rig.run(2s, both), 0u);
}

// GPU 1 requests 5 and its memory serves nothing, so it holds none of the memory that it should.
TEST_F(TwoTouchTest, MemoryFollowsTheLoad) {
  const ChunkId chunk = rig_.allocate({2 * MiB}, gpu_place(0));
  EXPECT_EQ(window(chunk, {4, 5}), 0u);
  EXPECT_EQ(window(chunk, {4, 5}), 1u);
  EXPECT_EQ(rig_.run(2s, [&] { feed(chunk, {4, 5}); }), 0u);
}

TEST_F(TwoTouchTest, OfEqualsTheHomeIsTheTopUser) {
  const ChunkId chunk = rig_.allocate({2 * MiB}, gpu_place(1));
  EXPECT_EQ(rig_.run(1s, [&] { feed(chunk, {5, 5, 5}); }), 0u);
}

TEST_F(TwoTouchTest, MovesNoMoreThanThereIsRoomFor) {
  const ChunkId chunks = rig_.allocate({4 * MiB, 4 * MiB, 4 * MiB}, rig_.host_place());
  rig_.allocate({2 * MiB}, gpu_place(0));
  const auto all = [&] {
    for (std::size_t i = 0; i < 3; ++i) feed(next(chunks, i), {1e6});
  };
  EXPECT_EQ(rig_.run(1s, all), 1u);
}

TEST_F(TwoTouchTest, LeavesWhatMayNotMove) {
  const ChunkId chunks = rig_.allocate({MiB, MiB, MiB, MiB}, rig_.host_place());
  rig_.tables().row(next(chunks, 0)).movable = false;
  rig_.tables().row(next(chunks, 1)).in_scope = false;
  rig_.tables().row(next(chunks, 2)).moving = true;
  rig_.tables().row(next(chunks, 3)).parked = true;
  const auto all = [&] {
    for (std::size_t i = 0; i < 4; ++i) feed(next(chunks, i), {1e6});
  };
  EXPECT_EQ(rig_.run(1s, all), 0u);
}

TEST_F(TwoTouchTest, GoesNowhereThatAUserCannotReach) {
  PolicyMachine islands = machine();
  islands.costs.access_rate(gpu_place(0), gpu_place(1)) = 0;
  PolicyRig rig(two_touch_kind(), islands);
  const ChunkId chunk = rig.allocate({2 * MiB}, rig.host_place());
  const auto both = [&] {
    rig.use_and_apply(chunk, gpu_place(0), 1);
    rig.use_and_apply(chunk, gpu_place(1), 9);
  };
  EXPECT_EQ(rig.run(1s, both), 0u);
}

// Uses arrive every millisecond and ticks every ten; here the uses end the windows.
TEST_F(TwoTouchTest, WindowsMayBeShorterThanATick) {
  PolicyRig rig(two_touch_kind(), machine(), {{"window", 0.001}});
  const ChunkId chunk = rig.allocate({2 * MiB}, gpu_place(0));
  EXPECT_TRUE(rig.use(chunk, gpu_place(1), 1e6).empty());
  rig.advance(1ms);
  EXPECT_TRUE(rig.use(chunk, gpu_place(1), 1e6).empty());
  rig.advance(1ms);
  EXPECT_EQ(proposals(rig.use(chunk, gpu_place(1), 1e6)), "chunk 0 to 1");
}

TEST_F(TwoTouchTest, ForgetsWhatIsGone) {
  const ChunkId old = rig_.allocate({2 * MiB}, gpu_place(0));
  EXPECT_EQ(window(old, {0, 1e6}), 0u);
  feed(old, {0, 1e6});
  rig_.free(old);
  const ChunkId fresh = rig_.allocate({2 * MiB}, gpu_place(0));
  ASSERT_EQ(fresh, old);
  EXPECT_EQ(rig_.run(100ms), 0u);
  EXPECT_EQ(window(fresh, {0, 1e6}), 0u);
  EXPECT_EQ(window(fresh, {0, 1e6}), 1u);
}

TEST_F(TwoTouchTest, HasNothingToMoveOnASingleGpu) {
  PolicyRig rig(two_touch_kind(), PolicyMachine::h200(1, 8 * MiB, 64 * MiB));
  const ChunkId chunk = rig.allocate({2 * MiB}, gpu_place(0));
  EXPECT_EQ(rig.run(1s, [&] { rig.use_and_apply(chunk, gpu_place(0), 1e6); }), 0u);
}

// Whatever the users and rates, nothing moves once each chunk has been examined twice.
TEST_F(TwoTouchTest, IsQuiescentOnSteadyInput) {
  std::mt19937 random(7);
  const ChunkId chunks = rig_.allocate(std::vector(24, std::uint64_t{MiB}), rig_.host_place());
  std::vector<Mix> mixes(24, Mix(3));
  for (Mix& mix : mixes) {
    for (double& bytes : mix) bytes = static_cast<double>(random() % 5);
  }
  const auto all = [&] {
    for (std::size_t i = 0; i < mixes.size(); ++i) feed(next(chunks, i), mixes[i]);
  };
  EXPECT_GT(rig_.run(5s, all), 10u);
  EXPECT_EQ(rig_.run(20s, all), 0u);
}

}  // namespace
}  // namespace v1
}  // namespace vma
