// Goal: chunks are expected again after the times that repeat, and only these. Method: uses at
// times chosen by hand.
#include "placement/auto/use_rhythm.hpp"

#include "unit/placement/policies/policy_rig.hpp"

namespace vma {
inline namespace v1 {
namespace {

using namespace std::chrono_literals;

class UseRhythmTest : public testing::Test {
 protected:
  UseRhythmTest()
      : tables_({{gpu(0), 1 << 20}, {gpu(1), 1 << 20}, {host(0), 1 << 20}},
                PolicyMachine::h200(2, 1 << 20, 1 << 20).costs),
        chunks_(tables_.add(1, "", std::vector<ChunkTables::NewChunk>(20, {100, gpu_place(0)}))) {}

  bool use(std::size_t chunk, Time at, double bytes = 100, std::size_t by = 0) {
    tables_.set_now(at);
    return rhythm_.used({next(chunks_, chunk), gpu_place(by), bytes, 0, nullptr},
                        Snapshot(tables_));
  }
  std::optional<NextUse> expected(std::size_t chunk) { return rhythm_.next(next(chunks_, chunk)); }

  ChunkTables tables_;
  const ChunkId chunks_;
  UseRhythm rhythm_{30ms};
};

TEST_F(UseRhythmTest, CloseUsesAreOne) {
  EXPECT_TRUE(use(0, 1s));
  EXPECT_FALSE(use(0, 1010ms));
  EXPECT_FALSE(use(0, 1030ms)) << "20 ms after the last";
  EXPECT_TRUE(use(0, 1060ms));
}

TEST_F(UseRhythmTest, ExpectsTheSameTimeAndPassesAgain) {
  for (const Time at : {1s, 3s, 5s}) {
    use(0, at);
    use(0, at + 10ms);
  }
  ASSERT_TRUE(expected(0));
  EXPECT_EQ(expected(0)->at, 7s);
  EXPECT_DOUBLE_EQ(expected(0)->passes, 2);
}

// Forward by one GPU, backward by the other: 1 s and 3 s, in turn.
TEST_F(UseRhythmTest, ExpectsTimesThatAlternate) {
  for (const Time at : {1s, 5s, 9s}) {
    use(0, at, 100, 0);
    use(0, at + 1s, 100, 1);
  }
  ASSERT_TRUE(expected(0));
  EXPECT_EQ(expected(0)->at, 13s);
  EXPECT_EQ(expected(0)->device, gpu_place(0));
}

TEST_F(UseRhythmTest, ExpectsNothingOfIrregularUses) {
  for (const Time at : {1s, 2s, 5s, 6s, 14s, 15s, 40s}) use(0, at);
  EXPECT_FALSE(expected(0));
}

// In the second iteration, what others did tells when chunks used once come back.
TEST_F(UseRhythmTest, OthersTellWhenAChunkUsedOnceComesBack) {
  for (std::size_t i = 0; i < 8; ++i) use(i, 1s);
  use(9, 2s);
  for (std::size_t i = 0; i < 3; ++i) use(i, 5s);
  EXPECT_FALSE(expected(9)) << "three do not suffice";
  use(3, 5s);
  ASSERT_TRUE(expected(9));
  EXPECT_EQ(expected(9)->at, 6s);
}

TEST_F(UseRhythmTest, TrustComesWithHitsAndGoesWithMisses) {
  Time at = 1s;
  for (int i = 0; i < 20; ++i) use(0, at += 1s);
  EXPECT_TRUE(rhythm_.trusted());
  for (int i = 0; i < 16 && rhythm_.trusted(); ++i) {
    rhythm_.missed(next(chunks_, 0));
    EXPECT_FALSE(expected(0)) << "until the next use";
  }
  EXPECT_FALSE(rhythm_.trusted());
}

TEST_F(UseRhythmTest, ForgetsWhatIsGone) {
  for (const Time at : {1s, 3s, 5s}) use(0, at);
  rhythm_.gone(chunks_);
  EXPECT_FALSE(expected(0));
}

}  // namespace
}  // namespace v1
}  // namespace vma
