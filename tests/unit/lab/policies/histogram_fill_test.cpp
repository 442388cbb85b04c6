// Goal: `histogram_fill` derives its threshold from the capacity, leaves the warm band alone and
// cools counts. Method: one GPU with HBM for ten chunks; 3 % are reserved, so nine fit. A pass adds
// 16 units to a count; a count of n units is in bin log2(n).
#include "lab/policies/lab_policies.hpp"
#include "placement/auto/auto.hpp"

#include "unit/placement/policies/policy_rig.hpp"

namespace vma {
inline namespace v1 {
namespace {

using namespace std::chrono_literals;

class HistogramFillTest : public testing::Test {
 protected:
  PolicyRig rig_{histogram_fill_kind(),
                 PolicyMachine::h200(1, 10 * small_chunk, 100 * small_chunk)};
  const PlaceId a_ = gpu_place(0);
  void use_each(ChunkId first, std::size_t chunks, double passes) {
    for (std::size_t i = 0; i < chunks; ++i) rig_.use(next(first, i), a_, passes * small_pass);
  }
  std::size_t chunks_at_home(ChunkId first, std::size_t chunks) {
    std::size_t count = 0;
    for (const std::size_t place : rig_.places_of(first, chunks)) count += place == 0 ? 1 : 0;
    return count;
  }
};

// 8 passes are 128 units, bin 7; 1/2 pass is 8 units, bin 3. All eight chunks of bin 7 fit, but not
// together with the six of bin 3: the threshold is 4 and eight come in. They fill 80 % of the HBM,
// so nothing is warm.
TEST_F(HistogramFillTest, ThresholdIsWhereTheHotBinsFillTheHbm) {
  const ChunkId mild = rig_.allocate(small_chunks(6), a_);
  const ChunkId hot = rig_.allocate(small_chunks(8), rig_.host_place());
  use_each(mild, 6, 0.5);
  use_each(hot, 8, 8);
  EXPECT_EQ(rig_.apply(rig_.tick()), 8u + 5u);  // Five mild ones leave; one more has room.
  EXPECT_EQ(chunks_at_home(hot, 8), 8u);
  EXPECT_EQ(chunks_at_home(mild, 6), 1u);
}

// Bin 7 has four chunks; together with the nine of bin 3 they do not fit, so the threshold is 4,
// and their 40 % are less than `warm_below`. Bin 3 is warm: it is not evicted, and only free room
// is filled: three chunks, since 3 % stay free.
TEST_F(HistogramFillTest, TheWarmBandStaysWhereItIs) {
  const ChunkId warm = rig_.allocate(small_chunks(6), a_);
  const ChunkId outside = rig_.allocate(small_chunks(3), rig_.host_place());
  const ChunkId hot = rig_.allocate(small_chunks(4), rig_.host_place());
  use_each(warm, 6, 0.5);
  use_each(outside, 3, 0.5);
  use_each(hot, 4, 8);
  EXPECT_EQ(rig_.apply(rig_.tick()), 3u);
  EXPECT_EQ(chunks_at_home(warm, 6), 6u);
  EXPECT_EQ(chunks_at_home(hot, 4), 3u);
  EXPECT_EQ(chunks_at_home(outside, 3), 0u);
}

TEST_F(HistogramFillTest, CoolingLetsGoOfWhatWasHot) {
  const ChunkId was = rig_.allocate(small_chunks(8), a_);
  const ChunkId is = rig_.allocate(small_chunks(8), rig_.host_place());
  use_each(was, 8, 8);
  use_each(is, 8, 1);
  EXPECT_EQ(rig_.apply(rig_.tick()), 1u);  // 128 units against 16: only fills free room.
  rig_.advance(20s);                       // Cooled five times: 4 units against 16.
  use_each(is, 8, 1);
  EXPECT_GT(rig_.apply(rig_.tick()), 0u);
  EXPECT_EQ(chunks_at_home(is, 8), 8u);
}

// With steady use the count is a sawtooth: it doubles in a period and is halved. Its bin is
// constant.
TEST_F(HistogramFillTest, RestsOnSteadyUse) {
  const ChunkId first = rig_.allocate(small_chunks(8), a_);
  const ChunkId more = rig_.allocate(small_chunks(8), rig_.host_place());
  const auto feed = [&] {
    for (std::size_t i = 0; i < 8; ++i) {
      rig_.use(next(first, i), a_, 0.01 * static_cast<double>(1 + i) * small_pass);
      rig_.use(next(more, i), a_, 0.013 * static_cast<double>(1 + i) * small_pass);
    }
  };
  rig_.run(30s, feed);
  EXPECT_FALSE(rig_.made().empty());
  EXPECT_EQ(rig_.run(60s, feed), 0u);
}

// 100 passes per second are 6400 units in four seconds: bin 12. The count reaches 12 800, bin 13,
// before it is halved.
TEST_F(HistogramFillTest, SteadyUseHasASteadyBin) {
  const ChunkId chunk = rig_.allocate(small_chunks(1), rig_.host_place());
  const auto feed = [&] { rig_.use(chunk, a_, small_pass); };
  rig_.tables().row(chunk).movable = false;
  rig_.run(40s, feed);
  rig_.tables().row(chunk).movable = true;
  std::size_t proposed = 0;
  for (int i = 0; i < 800; ++i) {
    feed();
    const Plan plan = rig_.tick();  // Never carried out.
    if (plan.empty()) continue;
    ++proposed;
    EXPECT_NE(plan.moves()[0].reason.find("in bin 12 "), std::string::npos)
        << plan.moves()[0].reason;
  }
  EXPECT_EQ(proposed, 16u);  // Every half second.
}

// Ten chunks of bin 7 exceed the 9.7 that the reserve leaves, so none of them is hot. They fill the
// free room except the reserve, and the mild ones stay.
TEST_F(HistogramFillTest, TheReserveIsNoPlaceForHotChunks) {
  const ChunkId mild = rig_.allocate(small_chunks(5), a_);
  const ChunkId hot = rig_.allocate(small_chunks(10), rig_.host_place());
  use_each(mild, 5, 0.5);
  use_each(hot, 10, 8);
  EXPECT_EQ(rig_.apply(rig_.tick()), 4u);
  EXPECT_EQ(chunks_at_home(mild, 5), 5u);
}

TEST_F(HistogramFillTest, PutsOutColdChunksBeforeTheHbmIsFull) {
  rig_.allocate(small_chunks(10), a_);
  const Plan plan = rig_.tick();
  EXPECT_EQ(proposals(plan),
            "chunk 0 to 1");  // Less than 2 % are free; one chunk is more than 3 %.
}

// A pass every four seconds does not pay for a move that takes ten; MEMTIS does not consider this.
TEST_F(HistogramFillTest, DoesNotAskWhatAMoveCosts) {
  PolicyMachine machine = PolicyMachine::h200(1, 10 * small_chunk, 100 * small_chunk);
  machine.costs.move_fixed(PlaceId{1}, PlaceId{0}) = 10s;
  PolicyRig asks(cost_benefit_kind(), machine), fills(histogram_fill_kind(), machine);
  for (PolicyRig* rig : {&asks, &fills}) {
    const ChunkId chunk = rig->allocate({small_chunk}, PlaceId{1});
    rig->use(chunk, a_, small_pass);
  }
  EXPECT_EQ(proposals(asks.tick()), "");
  EXPECT_EQ(proposals(fills.tick()), "chunk 0 to 0");
}

TEST_F(HistogramFillTest, LeavesAloneWhatMayNotMove) {
  const ChunkId cold = rig_.allocate(small_chunks(10), a_);
  const ChunkId hot = rig_.allocate(small_chunks(2), rig_.host_place());
  for (std::size_t i = 0; i < 9; ++i) rig_.tables().row(next(cold, i)).movable = false;
  rig_.tables().row(hot).moving = true;
  use_each(hot, 2, 8);
  // Without the reserve of 3 % the hot one stays out.
  EXPECT_EQ(proposals(rig_.tick()), "chunk 9 to 1");
}

TEST(HistogramFillGpus, EachHasItsOwnThreshold) {
  PolicyRig rig(histogram_fill_kind(), PolicyMachine::h200(2, 10 * small_chunk, 100 * small_chunk));
  const ChunkId first = rig.allocate(small_chunks(4), rig.host_place());
  for (std::size_t i = 0; i < 4; ++i) rig.use(next(first, i), gpu_place(i % 2), small_pass);
  rig.apply(rig.tick());
  EXPECT_EQ(rig.places_of(first, 4), (std::vector<std::size_t>{0, 1, 0, 1}));
}

TEST_F(HistogramFillTest, ForgetsChunksThatAreGone) {
  const ChunkId chunk = rig_.allocate(small_chunks(1), rig_.host_place());
  use_each(chunk, 1, 8);
  rig_.free(chunk);
  ASSERT_EQ(rig_.allocate(small_chunks(1), rig_.host_place()), chunk);
  EXPECT_EQ(rig_.run(5s), 0u);
}

// Two full GPUs whose chunks nobody uses must not pass them back and forth for ever.
TEST(HistogramFillRest, FullPeersDoNotPlayCatch) {
  constexpr std::uint64_t size = 100'000'000;
  PolicyRig rig(histogram_fill_kind(), PolicyMachine::h200(2, 10 * size, 100 * size));
  rig.allocate(std::vector<std::uint64_t>(10, size), gpu_place(0));
  rig.allocate(std::vector<std::uint64_t>(9, size), gpu_place(1));
  rig.run(std::chrono::seconds(10));
  EXPECT_EQ(rig.run(std::chrono::seconds(10)), 0u);
}

}  // namespace
}  // namespace v1
}  // namespace vma
