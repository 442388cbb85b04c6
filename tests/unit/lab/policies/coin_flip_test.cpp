// Goal: `coin_flip` moves a chunk after remote penalties of twice the cost on average, without
// memory, and makes the same choices for the same seed. Method: many chunks and counted uses, with
// the numbers of `counter_test.cpp`: a pass costs 0.909 ms more at a peer, a move 1.4 ms.
#include "lab/policies/lab_policies.hpp"

#include "unit/placement/policies/policy_rig.hpp"

#include <cmath>
#include <numeric>

namespace vma {
inline namespace v1 {
namespace {

constexpr std::size_t flipped_chunks = 500;
constexpr int uses_max = 1000;

PolicyMachine machine() {
  return PolicyMachine::h200(2, (flipped_chunks + 1) * large_chunk,
                             (flipped_chunks + 1) * large_chunk);
}

/// The number of uses that each chunk saw before it moved. One use has a penalty of 14 us, 1/200 of
/// twice the cost.
std::vector<double> uses_until_moved(double seed) {
  PolicyRig rig(coin_flip_kind(), machine(), {{"seed", seed}});
  const ChunkId first =
      rig.allocate(std::vector<std::uint64_t>(flipped_chunks, large_chunk), gpu_place(0));
  const double piece = 14e-6 / (1 / 390e9 - 1 / 3.8e12);
  std::vector<double> uses;
  for (std::size_t i = 0; i < flipped_chunks; ++i) {
    int count = 1;
    while (rig.use_and_apply(next(first, i), gpu_place(1), piece) == 0 && count < 20 * uses_max)
      ++count;
    uses.push_back(count);
  }
  return uses;
}

// A chance of 1/200 at each use: 200 uses on average, with a standard deviation equal to the mean.
TEST(CoinFlip, IsMemorylessWithAMeanOfTwiceTheCost) {
  const std::vector<double> uses = uses_until_moved(7);
  const double mean = std::accumulate(uses.begin(), uses.end(), 0.0) / flipped_chunks;
  double square = 0;
  for (const double use : uses) square += (use - mean) * (use - mean);
  EXPECT_NEAR(mean, 200, 25);
  EXPECT_NEAR(std::sqrt(square / flipped_chunks), 200, 40);
}

TEST(CoinFlip, SeedDecides) {
  EXPECT_EQ(uses_until_moved(1), uses_until_moved(1));
  EXPECT_NE(uses_until_moved(1), uses_until_moved(2));
}

// `counter` would never move here, since every use at home takes one back; the coin eventually
// does.
TEST(CoinFlip, MovesEvenSharesWhichCounterDoesNot) {
  for (const bool coin : {false, true}) {
    PolicyRig rig(coin ? coin_flip_kind() : counter_kind(), machine());
    const ChunkId chunk = rig.allocate({large_chunk}, gpu_place(0));
    std::size_t moves = 0;
    for (int i = 0; i < uses_max; ++i) {
      moves += rig.use_and_apply(chunk, gpu_place(1), large_chunk);
      moves += rig.use_and_apply(chunk, gpu_place(0), large_chunk);
    }
    EXPECT_EQ(moves > 10, coin) << moves;
    EXPECT_EQ(moves == 0, !coin) << moves;
  }
}

TEST(CoinFlip, RestsOnceTheUserHasItsChunk) {
  PolicyRig rig(coin_flip_kind(), machine());
  const ChunkId chunk = rig.allocate({large_chunk}, gpu_place(0));
  const auto feed = [&] { rig.use_and_apply(chunk, gpu_place(1), large_chunk); };
  rig.run(std::chrono::seconds(1), feed);
  EXPECT_EQ(rig.at(chunk), gpu_place(1));
  EXPECT_EQ(rig.made().size(), 1u);
}

TEST(CoinFlip, NeverMovesWhatMayNotOrHasNoRoomOrNoWay) {
  PolicyRig rig(coin_flip_kind(), PolicyMachine::h200(2, 2 * large_chunk, 2 * large_chunk));
  const ChunkId pinned = rig.allocate({large_chunk}, gpu_place(0));
  const ChunkId free = rig.allocate({large_chunk}, gpu_place(0));
  rig.tables().row(pinned).in_scope = false;
  for (int i = 0; i < 50; ++i) EXPECT_EQ(rig.use_and_apply(pinned, gpu_place(1), large_chunk), 0u);
  const ChunkId filling = rig.allocate({large_chunk, large_chunk}, gpu_place(1));
  for (int i = 0; i < 50; ++i) EXPECT_EQ(rig.use_and_apply(free, gpu_place(1), large_chunk), 0u);
  rig.free(filling);
  rig.tables().costs().copy_rate(gpu_place(0), gpu_place(1)) = 0;
  for (int i = 0; i < 50; ++i) EXPECT_EQ(rig.use_and_apply(free, gpu_place(1), large_chunk), 0u);
}

}  // namespace
}  // namespace v1
}  // namespace vma
