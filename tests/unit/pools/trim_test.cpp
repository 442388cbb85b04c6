// Goal: a pool gives memory back when CUDA's pools do, and never memory whose free is not known to
// be complete. Method: bytes that the pool has reserved, after each call.
#include "unit/pools/pool_rig.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace vma {
namespace {

constexpr std::size_t segment_bytes = 4 << 20;

class Trim : public testing::Test {
 protected:
  /// As many segments, with one block each.
  std::vector<void*> fill(const Pool& pool, int blocks) {
    std::vector<void*> all;
    for (int i = 0; i < blocks; ++i) all.push_back(pool.allocate(segment_bytes, stream));
    return all;
  }
  std::size_t reserved(const Pool& pool) { return pool.stats().reserved_bytes; }

  PoolRig rig;
  const Stream stream = rig.new_stream();
};

TEST_F(Trim, KeepsWhatIsUsedAndTheMinimum) {
  const Pool pool = rig.runtime().make_pool(gpu(0));
  pool.set_release_threshold(SIZE_MAX);
  const std::vector<void*> blocks = fill(pool, 4);
  const std::size_t all = reserved(pool);
  EXPECT_EQ(pool.trim(0), 0u);
  for (void* block : blocks) pool.deallocate(block, stream);
  rig.runtime().synchronize(stream);
  EXPECT_EQ(reserved(pool), all) << "below the release threshold";
  EXPECT_EQ(pool.trim(all), 0u) << "no-op below the minimum";
  const std::size_t given = pool.trim(segment_bytes);
  EXPECT_GT(given, 0u);
  EXPECT_EQ(reserved(pool), all - given);
  EXPECT_GE(reserved(pool), segment_bytes);
  pool.trim(0);
  EXPECT_EQ(reserved(pool), 0u);
}

TEST_F(Trim, CountsFreesThatAreNotCompleteAsUsed) {
  const Pool pool = rig.runtime().make_pool(gpu(0));
  const std::vector<void*> blocks = fill(pool, 2);
  rig.stop(stream);
  for (void* block : blocks) pool.deallocate(block, stream);
  EXPECT_EQ(pool.trim(0), 0u);
  rig.let_go(stream);
  EXPECT_GT(pool.trim(0), 0u);
  EXPECT_EQ(reserved(pool), 0u);
}

TEST_F(Trim, TheThresholdIsAppliedWhenACallWaits) {
  PoolOptions options;
  options.release_threshold = segment_bytes;
  const Pool pool = rig.runtime().make_pool(gpu(0), options);
  for (void* block : fill(pool, 3)) pool.deallocate(block, stream);
  EXPECT_GE(reserved(pool), 3 * segment_bytes) << "not before";
  rig.runtime().synchronize(stream);
  EXPECT_LT(reserved(pool), 3 * segment_bytes);
  EXPECT_GE(reserved(pool), segment_bytes);
  pool.set_release_threshold(0);
  pool.synchronize();
  EXPECT_EQ(reserved(pool), 0u);
}

TEST_F(Trim, AFreeOfOtherMemoryIsSuchACall) {
  const Pool pool = rig.runtime().make_pool(gpu(0));
  for (void* block : fill(pool, 2)) pool.deallocate(block, stream);
  rig.runtime().free(rig.alloc(8192, gpu(0)));
  EXPECT_EQ(reserved(pool), 0u);
}

TEST_F(Trim, APinnedSegmentStays) {
  const Pool pool = rig.runtime().make_pool(gpu(0));
  void* block = fill(pool, 1).front();
  {
    const Pin pin = rig.runtime().pin(block);
    pool.deallocate(block, stream);
    EXPECT_EQ(pool.trim(0), 0u);
    EXPECT_GT(reserved(pool), 0u);
  }
  EXPECT_GT(pool.trim(0), 0u);
}

TEST_F(Trim, ASegmentThatIsKeptStays) {
  const Pools::PoolPointer pool = rig.pools().make(gpu(0), {});
  const StreamHandle on = handle_of(stream);
  const Address kept = pool->allocate(segment_bytes, on, 256);
  const Address other = pool->allocate(segment_bytes, on, 256);
  EXPECT_TRUE(pool->keep_segments([&](Address segment) { return segment == kept; }));
  EXPECT_FALSE(pool->keep_segments([](Address) { return true; })) << "somebody keeps some already";
  for (const Address block : {kept, other}) Pools::deallocate(*rig.pools().block_at(block), on);
  EXPECT_GT(pool->trim(0), 0u);
  ASSERT_EQ(pool->segments().size(), 1u);
  EXPECT_EQ(pool->segments().front().segment, kept);
  pool->keep_segments({});
  EXPECT_GT(pool->trim(0), 0u);
  EXPECT_EQ(pool->stats().reserved_bytes, 0u);
  rig.pools().destroy(pool);
}

TEST_F(Trim, WhatAPoolDoesNotUseMakesRoomForItsOtherSizes) {
  PoolOptions options;
  options.max_bytes = 2 * segment_bytes;
  const Pool pool = rig.runtime().make_pool(gpu(0), options);
  for (void* block : fill(pool, 2)) pool.deallocate(block, stream);
  void* large = pool.allocate(2 * segment_bytes, stream);
  EXPECT_LE(pool.stats().reserved_high_bytes, 2 * segment_bytes);
  pool.deallocate(large, stream);
}

TEST_F(Trim, SegmentsThatAreTooSmallMakeRoomForALargerOne) {
  PoolOptions options;
  options.release_threshold = SIZE_MAX;
  const Pool pool = rig.runtime().make_pool(gpu(0), options);
  std::vector<void*> blocks = fill(pool, 4);
  void* kept = blocks.back();
  blocks.pop_back();
  for (void* block : blocks) pool.deallocate(block, stream);
  rig.runtime().synchronize(stream);
  pool.reset_high_marks();
  const std::size_t before = pool.stats().reserved_high_bytes;
  void* large = pool.allocate(2 * segment_bytes, stream);
  EXPECT_LE(pool.stats().reserved_high_bytes, before);
  EXPECT_EQ(rig.place(kept), gpu(0));
  pool.deallocate(large, stream);
  pool.deallocate(kept, stream);
}

}  // namespace
}  // namespace vma
