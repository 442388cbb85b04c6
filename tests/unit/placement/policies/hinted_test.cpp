// Goal: `hinted` follows hints that pay, stops believing those that prove false, and equals
// `counter` without hints. Method: the numbers of `counter_test.cpp`: an announced pass saves 0.909
// ms and a move costs 1.4 ms, so two passes pay and one does not.
#include "placement/policies/built_in_policies.hpp"

#include "unit/placement/policies/policy_rig.hpp"

namespace vma {
inline namespace v1 {
namespace {

using namespace std::chrono_literals;

Hint announced(double passes, std::optional<std::chrono::nanoseconds> next_use = {}) {
  Hint hint;
  hint.device = gpu(1);
  hint.passes = passes;
  hint.next_use = next_use;
  return hint;
}

class HintedTest : public testing::Test {
 protected:
  PolicyRig rig_{hinted_kind(), PolicyMachine::h200(2, 40 * large_chunk, 40 * large_chunk)};
  const PlaceId a_ = gpu_place(0), b_ = gpu_place(1);
  /// Announces two passes that do not happen.
  void lie() {
    const ChunkId chunk = rig_.allocate({large_chunk}, a_);
    rig_.apply(rig_.advise(chunk, announced(2)));
    rig_.advance(6s);
    rig_.apply(rig_.tick());
    rig_.free(chunk);
  }
};

TEST_F(HintedTest, MovesForTwoPassesAndNotForOne) {
  const ChunkId chunk = rig_.allocate({large_chunk}, a_);
  EXPECT_EQ(wishes(rig_.advise(chunk, announced(1))), "");
  const Plan plan = rig_.advise(chunk, announced(2));
  ASSERT_EQ(wishes(plan), "chunk 0 to 1");
  EXPECT_NEAR(plan.moves()[0].value, 2 * 0.9089e-3 - 1.4e-3, 1e-6);
}

// Nothing was used yet, so `counter` could not know. The use is announced for 5 s, with a lead of 1
// s.
TEST_F(HintedTest, PrefetchesASecondBeforeTheUse) {
  const ChunkId chunk = rig_.allocate({large_chunk}, a_);
  EXPECT_EQ(wishes(rig_.advise(chunk, announced(10, 5s))), "");
  rig_.advance(3900ms);
  EXPECT_EQ(wishes(rig_.tick()), "");  // At 3.91 s.
  rig_.advance(80ms);
  EXPECT_EQ(wishes(rig_.tick()), "chunk 0 to 1");
}

// After one false hint the trust is 0.75: 2 x 0.909 ms x 0.75 = 1.36 ms no longer pays, three
// passes (2.05 ms) do.
TEST_F(HintedTest, ALieCostsAQuarterOfTheTrust) {
  lie();
  const ChunkId chunk = rig_.allocate({large_chunk}, a_);
  EXPECT_EQ(wishes(rig_.advise(chunk, announced(2))), "");
  EXPECT_EQ(wishes(rig_.advise(chunk, announced(3))), "chunk 0 to 1");
}

// 0.75^5 = 0.237 is below a quarter, so no announcement is enough. One that comes true restores
// trust: 0.237 + 0.763 / 8 = 0.33.
TEST_F(HintedTest, StopsFollowingLiesAndStartsAgainWhenHintsComeTrue) {
  for (int i = 0; i < 5; ++i) lie();
  const ChunkId chunk = rig_.allocate({large_chunk}, a_);
  EXPECT_EQ(wishes(rig_.advise(chunk, announced(1000))), "");
  rig_.use(chunk, b_, large_pass);
  // Replaced by the next hint: counts neither as true nor as false.
  rig_.advise(chunk, announced(1));
  rig_.use(chunk, b_, large_pass);  // Makes it true.
  EXPECT_EQ(wishes(rig_.advise(chunk, announced(1000))), "chunk 0 to 1");
}

TEST_F(HintedTest, IsCounterWithoutHints) {
  PolicyRig counter(counter_kind(), PolicyMachine::h200(2, 40 * large_chunk, 40 * large_chunk));
  const ChunkId chunk = rig_.allocate({large_chunk}, a_);
  const ChunkId same = counter.allocate({large_chunk}, a_);
  for (int i = 0; i < 50; ++i) {
    const PlaceId device = i % 7 < 4 ? b_ : a_;
    EXPECT_EQ(rig_.use_and_apply(chunk, device, large_pass),
              counter.use_and_apply(same, device, large_pass));
  }
  EXPECT_FALSE(rig_.made().empty());
}

// Uses by others pull a chunk away only once its hint has come true or failed.
TEST_F(HintedTest, KeepsAChunkWhereItWasAnnounced) {
  const ChunkId chunk = rig_.allocate({large_chunk}, a_);
  rig_.apply(rig_.advise(chunk, announced(100)));
  ASSERT_EQ(rig_.at(chunk), b_);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(rig_.use_and_apply(chunk, a_, large_pass), 0u);
  rig_.advance(6s);
  rig_.tick();
  EXPECT_EQ(rig_.use_and_apply(chunk, a_, large_pass), 1u);
}

// Five that announce nothing would cost as much trust as five lies.
TEST_F(HintedTest, NoPassesAreNoPromise) {
  const ChunkId idle = rig_.allocate({large_chunk}, b_);
  for (int i = 0; i < 5; ++i) {
    rig_.apply(rig_.advise(idle, announced(0, 1s)));
    rig_.advance(10s);
    rig_.apply(rig_.tick());
  }
  const ChunkId chunk = rig_.allocate({large_chunk}, a_);
  EXPECT_EQ(wishes(rig_.advise(chunk, announced(2))), "chunk 1 to 1");
}

// A hint whose program says that its passes take 20 s is not false after the patience of 5 s.
TEST_F(HintedTest, AHintIsJudgedWhenItEnds) {
  for (int i = 0; i < 5; ++i) {
    Hint slow = announced(4);
    slow.until = rig_.snapshot().now() + 20s;
    const ChunkId chunk = rig_.allocate({large_chunk}, a_);
    rig_.apply(rig_.advise(chunk, slow));
    rig_.advance(6s);
    rig_.apply(rig_.tick());
    rig_.use(chunk, b_, 2 * large_pass);
    rig_.free(chunk);
  }
  const ChunkId chunk = rig_.allocate({large_chunk}, a_);
  EXPECT_EQ(wishes(rig_.advise(chunk, announced(2))), "chunk 0 to 1");
}

TEST_F(HintedTest, WaitsForRoomAndMovesOnce) {
  const ChunkId chunk = rig_.allocate({large_chunk}, a_);
  const ChunkId filling = rig_.allocate(std::vector<std::uint64_t>(40, large_chunk), b_);
  EXPECT_EQ(wishes(rig_.advise(chunk, announced(10))), "");
  EXPECT_EQ(wishes(rig_.tick()), "");
  rig_.free(filling);
  EXPECT_EQ(rig_.apply(rig_.tick()), 1u);
  EXPECT_EQ(rig_.run(10s), 0u);
}

TEST_F(HintedTest, ForgetsChunksThatAreGone) {
  const ChunkId chunk = rig_.allocate({large_chunk}, a_);
  rig_.advise(chunk, announced(10, 2s));
  rig_.free(chunk);
  ASSERT_EQ(rig_.allocate({large_chunk}, a_), chunk);
  EXPECT_EQ(rig_.run(10s), 0u);
}

// A hint that is not worth a move, repeated before each use, does not reset `counter`.
TEST_F(HintedTest, RepeatedHintsDoNotStopTheFallback) {
  const ChunkId chunk = rig_.allocate({large_chunk}, a_);
  for (int i = 0; i < 20; ++i) {
    rig_.apply(rig_.advise(chunk, announced(0.9)));
    rig_.use_and_apply(chunk, b_, large_pass / 4);
  }
  EXPECT_EQ(rig_.at(chunk), b_);
}

// Its deadline is later than the last time that can be represented.
TEST(Hinted, AHintForNeverIsNoLie) {
  PolicyRig rig(hinted_kind(), PolicyMachine::h200(2, 40 * large_chunk, 40 * large_chunk),
                {{"trust_least", 1}});
  const ChunkId chunk = rig.allocate({large_chunk, large_chunk}, gpu_place(0));
  rig.apply(rig.advise(chunk, announced(5, Time::max() - rig.now())));
  rig.run(1s);
  EXPECT_EQ(wishes(rig.advise(next(chunk), announced(5))), "chunk 1 to 1");
}

}  // namespace
}  // namespace v1
}  // namespace vma
