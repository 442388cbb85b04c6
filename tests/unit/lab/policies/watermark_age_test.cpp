// Goal: `watermark_age` keeps headroom by demoting the coldest chunks by age and frequency, and
// promotes those touched twice. Method: warmth, watermarks and tokens computed by hand on 100 MiB
// of HBM in chunks of 1 MiB, where 1 % is a chunk.
#include "unit/placement/policies/policy_rig.hpp"

#include "base/units.hpp"
#include "lab/policies/lab_policies.hpp"

#include <random>

namespace vma {
inline namespace v1 {
namespace {

using namespace std::chrono_literals;

std::vector<std::uint64_t> mib_chunks(std::size_t count) {
  return std::vector(count, std::uint64_t{MiB});
}

class WatermarkAgeTest : public testing::Test {
 protected:
  static constexpr double plenty = 1e12;  // For the quota.

  static PolicyMachine machine(std::size_t gpus = 1) {
    return PolicyMachine::h200(gpus, 100 * MiB, GiB);
  }
  /// Passes over each of them once.
  static void use_all(PolicyRig& rig, ChunkId first, std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) rig.use(next(first, i), gpu_place(0), MiB);
  }

  PolicyRig rig_{watermark_age_kind(), machine(), {{"quota", plenty}}};
};

// --- Headroom

// 98 chunks leave 2 %, which is not less than `low`; of 99, two leave until `high`, 3 %, is free.
TEST_F(WatermarkAgeTest, DemotesBelowTheLowMarkUntilTheHighOne) {
  const ChunkId first = rig_.allocate(mib_chunks(98), gpu_place(0));
  EXPECT_TRUE(rig_.tick().empty());
  const ChunkId last = rig_.allocate(mib_chunks(1), gpu_place(0));
  rig_.advance(30s);
  use_all(rig_, first, 0, 7);
  use_all(rig_, first, 8, 98);
  rig_.use(last, gpu_place(0), 2 * MiB);
  // Number 7 was never used; of chunks used alike, the one filed first leaves.
  const Plan plan = rig_.tick();
  EXPECT_EQ(proposals(plan), "chunk 7 to 1, chunk 0 to 1");
  EXPECT_TRUE(plan.moves()[0].victim);
  EXPECT_EQ(plan.moves()[0].reason,
            "idle 30.02 s, 0 passes/s, gpu(0) has 1.0 % free and wants 3.0 %");
  rig_.apply(plan);
  EXPECT_TRUE(rig_.tick().empty());
}

// 5000 chunks are dropped, more than one walk examines; the 100 present ones are one above the
// mark.
TEST_F(WatermarkAgeTest, DroppedChunksHideNoVictim) {
  PolicyRig rig(watermark_age_kind(), PolicyMachine::h200(1, 5100 * MiB, GiB), {{"quota", plenty}});
  const ChunkId dropped = rig.allocate(mib_chunks(5000), gpu_place(0));
  rig.tick();
  for (std::size_t i = 0; i < 5000; ++i) rig.tables().set_dropped(next(dropped, i), true);
  rig.allocate(mib_chunks(100), gpu_place(0));
  rig.tables().set_capacity(gpu_place(0), 100 * MiB);
  EXPECT_EQ(proposals(rig.tick()), "chunk 5000 to 1, chunk 5001 to 1, chunk 5002 to 1");
}

TEST_F(WatermarkAgeTest, CountsWhatIsOnItsWayOutAsGone) {
  rig_.allocate(mib_chunks(99), gpu_place(0));
  const Plan plan = rig_.tick();
  ASSERT_EQ(plan.moves().size(), 2u);
  for (const Move& move : plan.moves()) rig_.tables().row(move.chunk).moving = true;
  EXPECT_TRUE(rig_.tick().empty());
  // In the end neither move is made.
  for (const Move& move : plan.moves()) rig_.tables().row(move.chunk).moving = false;
  EXPECT_EQ(rig_.tick().moves().size(), 2u);
}

// a: 8 passes, then idle for 120 s, two half-lives: log2(8) - 2 = 1. b: 1.5 passes now: 0.58. So b
// is colder. With a half-life of 20 s a has lost 6 and is colder.
TEST_F(WatermarkAgeTest, WeighsAgeAgainstFrequency) {
  for (const double half_life : {60, 20}) {
    PolicyRig rig(watermark_age_kind(), machine(), {{"quota", plenty}, {"half_life", half_life}});
    const ChunkId a = rig.allocate(mib_chunks(1), gpu_place(0));
    rig.use(a, gpu_place(0), 8 * MiB);
    rig.tick();
    rig.advance(120s);
    const ChunkId others = rig.allocate(mib_chunks(97), gpu_place(0));
    for (int pass = 0; pass < 16; ++pass) use_all(rig, others, 1, 97);
    const ChunkId b = others;
    rig.use(b, gpu_place(0), 1.5 * MiB);
    EXPECT_TRUE(rig.tick().empty());
    rig.allocate({MiB / 2}, gpu_place(0));
    rig.tables().row(ChunkId{98}).movable = false;
    const std::string coldest = half_life > 30 ? "chunk 1 to 1" : "chunk 0 to 1";
    EXPECT_EQ(proposals(rig.tick()).substr(0, 12), coldest);
  }
}

// Tokens: 1 + t - n MiB after t seconds and n chunks, open while above 0: within 5 s, six.
TEST_F(WatermarkAgeTest, MovesNoMoreThanItsQuota) {
  PolicyRig rig(watermark_age_kind(), machine(), {{"quota", MiB}, {"low", 0.1}, {"high", 0.2}});
  rig.allocate(mib_chunks(91), gpu_place(0));
  EXPECT_EQ(rig.run(5s), 6u);
  EXPECT_EQ(rig.run(20s), 5u) << "11 in all: 20 % are free";
}

TEST_F(WatermarkAgeTest, AChunkLargerThanTheBucketMovesAndIsOwed) {
  PolicyRig rig(watermark_age_kind(), machine(), {{"quota", MiB}, {"low", 0.2}, {"high", 0.3}});
  rig.allocate({10 * MiB, 10 * MiB, 70 * MiB}, gpu_place(0));
  EXPECT_EQ(rig.run(10ms), 1u);
  EXPECT_EQ(rig.run(8900ms), 0u) << "9 MiB are owed";
  EXPECT_EQ(rig.run(200ms), 1u);
}

// --- Tiers

TEST_F(WatermarkAgeTest, GoesDownTheMachinesOrderOfTiers) {
  PolicyMachine two = machine(2);
  PolicyRig rig(watermark_age_kind(), two, {{"quota", plenty}});
  rig.allocate(mib_chunks(96), gpu_place(1));
  rig.allocate(mib_chunks(99), gpu_place(0));
  // The peer comes first and keeps its own 3 % free: of its 4 it lends one.
  EXPECT_EQ(proposals(rig.tick()), "chunk 96 to 1, chunk 97 to 2");
  // If host memory is faster than a peer, it comes first.
  two.costs.access_rate(gpu_place(0), gpu_place(2)) = 400e9;
  PolicyRig grace(watermark_age_kind(), two, {{"quota", plenty}});
  grace.allocate(mib_chunks(99), gpu_place(0));
  EXPECT_EQ(proposals(grace.tick()), "chunk 0 to 2, chunk 1 to 2");
}

TEST_F(WatermarkAgeTest, WithoutRoomBelowNothingMoves) {
  PolicyRig rig(watermark_age_kind(), PolicyMachine::h200(1, 100 * MiB, MiB / 2),
                {{"quota", plenty}});
  rig.allocate(mib_chunks(99), gpu_place(0));
  EXPECT_TRUE(rig.tick().empty());
  EXPECT_TRUE(rig.press({gpu_place(0), MiB, gpu_place(0)}).empty());
}

TEST_F(WatermarkAgeTest, GoesNowhereThatAUserCannotReach) {
  PolicyMachine islands = machine(2);
  islands.costs.access_rate(gpu_place(1), gpu_place(2)) = 0;
  PolicyRig rig(watermark_age_kind(), islands, {{"quota", plenty}});
  rig.allocate(mib_chunks(97), gpu_place(1));
  const ChunkId first = rig.allocate(mib_chunks(99), gpu_place(0));
  // GPU 1, which does not reach the host, uses the two coldest chunks; the peer is full.
  rig.use(first, gpu_place(1), 1e3);
  rig.use(next(first), gpu_place(1), 1e3);
  EXPECT_EQ(proposals(rig.tick()), "chunk 99 to 2, chunk 100 to 2");
}

TEST_F(WatermarkAgeTest, PassesOverWhatMayNotMove) {
  const ChunkId first = rig_.allocate(mib_chunks(99), gpu_place(0));
  rig_.tables().row(next(first, 0)).movable = false;
  rig_.tables().row(next(first, 1)).in_scope = false;
  rig_.tables().row(next(first, 2)).moving = true;
  rig_.tables().row(next(first, 3)).parked = true;
  EXPECT_EQ(proposals(rig_.tick()), "chunk 4 to 1, chunk 5 to 1");
}

// More pinned chunks than one walk examines: the next walks continue where it stopped.
TEST_F(WatermarkAgeTest, GetsPastAnyNumberOfPinnedChunks) {
  PolicyRig rig(watermark_age_kind(), PolicyMachine::h200(1, 10000 * MiB, GiB),
                {{"quota", plenty}, {"low", 0.01}, {"high", 0.01}});
  const ChunkId first = rig.allocate(mib_chunks(9901), gpu_place(0));
  for (std::size_t i = 0; i < 9000; ++i) rig.tables().row(next(first, i)).movable = false;
  EXPECT_TRUE(rig.tick().empty());
  EXPECT_TRUE(rig.tick().empty());
  EXPECT_EQ(proposals(rig.tick()), "chunk 9000 to 1");
}

TEST_F(WatermarkAgeTest, PressureTakesTheColdestWhateverTheQuota) {
  PolicyRig rig(watermark_age_kind(), machine(), {{"quota", 1}});
  const ChunkId first = rig.allocate(mib_chunks(6), gpu_place(0));
  rig.tick();
  rig.advance(10s);
  use_all(rig, first, 0, 2);
  use_all(rig, first, 4, 6);
  const Plan plan = rig.press({gpu_place(0), 3 * MiB, gpu_place(0)});
  EXPECT_EQ(proposals(plan), "chunk 2 to 1, chunk 3 to 1, chunk 0 to 1");
  EXPECT_EQ(rig.apply(plan), 3u);
}

// --- Promotion

TEST_F(WatermarkAgeTest, PromotesOnTheSecondTouchWithinATime) {
  const ChunkId chunk = rig_.allocate(mib_chunks(1), rig_.host_place());
  EXPECT_TRUE(rig_.use(chunk, gpu_place(0), MiB).empty());
  rig_.advance(9ms);
  EXPECT_TRUE(rig_.use(chunk, gpu_place(0), MiB).empty()) << "part of the first touch";
  rig_.advance(1100ms);
  EXPECT_TRUE(rig_.use(chunk, gpu_place(0), MiB).empty()) << "too late, a first touch again";
  rig_.advance(900ms);
  const Plan plan = rig_.use(chunk, gpu_place(0), MiB);
  EXPECT_EQ(proposals(plan), "chunk 0 to 0");
  // The last two passes and the remains of the others: 1 + 2^-0.9 + (1 + 2^-0.009) * 2^-2 times ln
  // 2 MiB/s.
  EXPECT_EQ(plan.moves()[0].reason, "gpu(0) touched it twice, and uses 1.48 MB/s");
}

TEST_F(WatermarkAgeTest, TouchesMayBeShorterThanATick) {
  PolicyRig rig(watermark_age_kind(), machine(), {{"second_touch", 0.005}, {"apart", 1}});
  const ChunkId chunk = rig.allocate(mib_chunks(1), rig.host_place());
  EXPECT_TRUE(rig.use(chunk, gpu_place(0), MiB).empty());
  rig.advance(3ms);  // More than half of 5 ms, the largest allowed value of `apart`.
  EXPECT_EQ(proposals(rig.use(chunk, gpu_place(0), MiB)), "chunk 0 to 0");
}

// Only a chunk that is colder by a power of two makes room. Chunk 0 was last used 120 s ago, so it
// has lost two; the others are as warm as the newcomer.
TEST_F(WatermarkAgeTest, ExchangesForSomethingColderOnly) {
  PolicyRig rig(watermark_age_kind(), PolicyMachine::h200(1, 4 * MiB, GiB),
                {{"quota", plenty}, {"low", 0}, {"high", 0}});
  const ChunkId first = rig.allocate(mib_chunks(4), gpu_place(0));
  const ChunkId coming = rig.allocate(mib_chunks(2), rig.host_place());
  use_all(rig, first, 0, 1);
  rig.tick();
  rig.advance(120s);
  use_all(rig, first, 1, 4);
  use_all(rig, coming, 0, 2);
  rig.tick();
  rig.advance(100ms);
  const Plan plan = rig.use(coming, gpu_place(0), MiB / 64.0);
  EXPECT_EQ(proposals(plan), "chunk 0 to 1, chunk 4 to 0");
  EXPECT_TRUE(rig.use(next(coming), gpu_place(0), MiB / 64.0).empty()) << "the same moment";
  rig.apply(plan);
  rig.advance(100ms);
  EXPECT_TRUE(rig.use(next(coming), gpu_place(0), MiB / 64.0).empty()) << "no colder one is left";
}

TEST_F(WatermarkAgeTest, KeepsTheLowMarkFree) {
  const ChunkId first = rig_.allocate(mib_chunks(97), gpu_place(0));
  const ChunkId coming = rig_.allocate(mib_chunks(2), rig_.host_place());
  use_all(rig_, first, 0, 97);
  use_all(rig_, coming, 0, 2);
  rig_.advance(100ms);
  // 3 % are free: one chunk may come, even within one look, and 2 % stay free.
  EXPECT_EQ(proposals(rig_.use(coming, gpu_place(0), MiB / 64.0)), "chunk 97 to 0");
  EXPECT_TRUE(rig_.use(next(coming), gpu_place(0), MiB / 64.0).empty());
}

TEST_F(WatermarkAgeTest, AnEmptyQuotaStopsPromotions) {
  PolicyRig rig(watermark_age_kind(), machine(), {{"quota", MiB / 2.0}});
  const ChunkId coming = rig.allocate(mib_chunks(2), rig.host_place());
  use_all(rig, coming, 0, 2);
  rig.advance(100ms);
  const Plan plan = rig.use(coming, gpu_place(0), MiB);
  EXPECT_EQ(plan.moves().size(), 1u);
  EXPECT_TRUE(rig.use(next(coming), gpu_place(0), MiB).empty()) << "half a MiB is owed";
  // The first one is not made, so its token is returned.
  rig.policy().on_result({coming, rig.host_place(), gpu_place(0), false}, rig.snapshot());
  rig.advance(100ms);
  EXPECT_EQ(rig.use(next(coming), gpu_place(0), MiB).moves().size(), 1u);
}

// HBM of a peer that uses the chunk itself is not a lower tier: at least half as much use keeps it
// there.
TEST_F(WatermarkAgeTest, TakesNothingFromAGpuThatUsesItToo) {
  for (const double owner : {6, 4}) {
    PolicyRig rig(watermark_age_kind(), machine(2), {{"quota", plenty}});
    const ChunkId chunk = rig.allocate(mib_chunks(1), gpu_place(0));
    rig.use_and_apply(chunk, gpu_place(0), owner);
    rig.use_and_apply(chunk, gpu_place(1), 10);
    rig.advance(100ms);
    rig.use_and_apply(chunk, gpu_place(0), owner);
    rig.advance(100ms);
    rig.use_and_apply(chunk, gpu_place(1), 10);
    EXPECT_EQ(index(rig.at(chunk)), owner > 5 ? 0u : 1u) << owner;
  }
}

TEST_F(WatermarkAgeTest, ForgetsWhatIsGone) {
  const ChunkId old = rig_.allocate(mib_chunks(99), gpu_place(0));
  EXPECT_EQ(rig_.tick().moves().size(), 2u);
  use_all(rig_, old, 0, 99);
  rig_.free(old);
  const ChunkId fresh = rig_.allocate(mib_chunks(90), rig_.host_place());
  ASSERT_EQ(fresh, old);
  rig_.advance(100ms);
  EXPECT_TRUE(rig_.use(fresh, gpu_place(0), MiB).empty()) << "its first touch";
  EXPECT_TRUE(rig_.tick().empty());
  EXPECT_TRUE(rig_.press({gpu_place(0), MiB, gpu_place(0)}).empty());
}

// Twice as much as fits, used by both GPUs at various rates.
TEST_F(WatermarkAgeTest, IsQuiescentOnSteadyInput) {
  PolicyRig rig(watermark_age_kind(), PolicyMachine::h200(2, 20 * MiB, GiB),
                {{"low", 0.1}, {"high", 0.2}});
  std::mt19937 random(3);
  const ChunkId first = rig.allocate(mib_chunks(20), gpu_place(0));
  const ChunkId others = rig.allocate(mib_chunks(60), rig.host_place());
  std::vector<std::pair<std::size_t, double>> uses(80);
  for (auto& [gpu, bytes] : uses) {
    gpu = random() % 2;
    bytes = MiB / static_cast<double>(1 + random() % 64);
  }
  std::size_t turn = 0;
  const auto feed = [&] {
    for (std::size_t i = 0; i < uses.size(); ++i) {
      if ((i + turn) % 8 != 0) continue;  // Each one every 80 ms.
      rig.use_and_apply(i < 20 ? next(first, i) : next(others, i - 20), gpu_place(uses[i].first),
                        uses[i].second);
    }
    ++turn;
  };
  EXPECT_GT(rig.run(60s, feed), 20u);
  EXPECT_EQ(rig.run(60s, feed), 0u);
}

}  // namespace
}  // namespace v1
}  // namespace vma
