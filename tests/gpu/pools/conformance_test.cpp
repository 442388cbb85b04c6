// Goal: pools keep what CUDA's guide states of its stream-ordered allocator. Method: each statement
// is a test, which runs against vmart's pools on a simulated machine and on GPUs, and against
// CUDA's own pools, so that a statement that was misread fails there. What differs on purpose is
// listed in docs/guide/pools.md.
#include "gpu/pools/pool_test.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <thread>
#include <vector>

namespace vma {
namespace {

template <typename Subject>
class PoolConformance : public PoolTest<Subject> {
 protected:
  using Pool = StreamAllocator::Pool;
  using Terms = PoolUnderTest::Terms;

  using PoolTest<Subject>::on;
  /// A pool that has room for one block.
  Pool tight(ReusePolicies reuse) { return on().make_pool(0, {SIZE_MAX, segment_bytes, reuse}); }
  bool has_two_gpus() { return on().gpus() > 1; }
};
TYPED_TEST_SUITE(PoolConformance, PoolSubjects, PoolSubjectNames);

// --- Order

TYPED_TEST(PoolConformance, WorkOfTheStreamUsesABlockAtOnce) {
  const Stream stream = this->on().new_stream();
  void* words = this->on().allocate(few_bytes, stream);
  this->on().fill(stream, words, few_words, 7);
  expect_words(this->on(), stream, words, 7);
  this->on().deallocate(words, stream);
}

TYPED_TEST(PoolConformance, OtherStreamsUseAndFreeItInTheOrderOfEvents) {
  StreamAllocator& on = this->on();
  const Stream first = on.new_stream(), second = on.new_stream(), third = on.new_stream();
  void* words = on.allocate(few_bytes, first);
  on.fill(first, words, few_words, 1);
  on.order(second, first);
  on.add(second, words, few_words, 5);
  expect_words(this->on(), second, words, 6);
  on.order(third, second);
  on.deallocate(words, third);
  on.synchronize(third);
}

TYPED_TEST(PoolConformance, NeitherCallWaitsForWork) {
  StreamAllocator& on = this->on();
  const Stream busy = on.new_stream(), other = on.new_stream();
  void* block = on.allocate(few_bytes, busy);
  on.stop(busy);
  on.deallocate(block, busy);
  void* more = on.allocate(few_bytes, busy);
  void* elsewhere = on.allocate(few_bytes, other);
  on.fill(other, elsewhere, few_words, 2);
  expect_words(this->on(), other, elsewhere, 2);
  on.deallocate(elsewhere, other);
  on.deallocate(more, busy);
  on.let_go(busy);
  on.synchronize(busy);
}

TYPED_TEST(PoolConformance, TheStreamOfTheFreeReusesItWhileItsWorkRuns) {
  StreamAllocator& on = this->on();
  const Stream stream = on.new_stream();
  const auto pool = this->tight({false, false, false});
  void* block = pool->allocate(segment_bytes, stream);
  on.stop(stream);
  on.fill(stream, block, few_words, 1);
  on.deallocate(block, stream);
  void* again = pool->allocate(segment_bytes, stream);
  EXPECT_EQ(again, block);
  on.fill(stream, again, few_words, 2);
  on.let_go(stream);
  expect_words(this->on(), stream, again, 2);
  on.deallocate(again, stream);
  on.synchronize(stream);
}

TYPED_TEST(PoolConformance, BlocksAreAlignedTo256Bytes) {
  const Stream stream = this->on().new_stream();
  std::vector<void*> blocks;
  for (const std::size_t bytes : {1, 100, 257, 5000, 1'000'001}) {
    blocks.push_back(this->on().allocate(bytes, stream));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back()) % 256, 0u);
  }
  for (void* block : blocks) this->on().deallocate(block, stream);
}

TYPED_TEST(PoolConformance, ADestroyedStreamLosesNothing) {
  StreamAllocator& on = this->on();
  const auto pool = on.make_pool(0, {});
  const Stream last = on.new_stream();
  for (int i = 0; i < 20; ++i) {
    const Stream stream = on.new_stream();
    void* block = pool->allocate(few_bytes, stream);
    on.fill(stream, block, few_words, 1);
    on.deallocate(block, stream);
    on.order(last, stream);
    on.end(stream);
  }
  on.deallocate(pool->allocate(few_bytes, last), last);
  on.synchronize(last);
  pool->trim(0);
  EXPECT_EQ(pool->stats().used, 0u);
  EXPECT_EQ(pool->stats().reserved, 0u);
}

TYPED_TEST(PoolConformance, ThreadsWithStreamsOfTheirOwnDisturbNobody) {
  StreamAllocator& on = this->on();
  constexpr int threads = 8, rounds = 200;
  const auto pool = on.make_pool(0, {SIZE_MAX, 0, {}});
  std::vector<Stream> streams;
  std::vector<void*> kept(threads);
  for (int i = 0; i < threads; ++i) streams.push_back(on.new_stream());
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      on.enter_thread();
      const auto own = static_cast<std::size_t>(i);
      for (int round = 0; round < rounds; ++round) {
        void* words = pool->allocate(few_bytes, streams[own]);
        on.fill(streams[own], words, few_words, own << 32);
        if (round == rounds / 2) {
          kept[own] = words;
        } else {
          on.deallocate(words, streams[own]);
        }
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  EXPECT_EQ(std::set<void*>(kept.begin(), kept.end()).size(), std::size_t{threads});
  for (std::size_t i = 0; i < kept.size(); ++i) {
    expect_words(this->on(), streams[i], kept[i], i << 32);
    on.deallocate(kept[i], streams[i]);
    on.synchronize(streams[i]);
  }
}

// --- With cudaMalloc and cudaFree

TYPED_TEST(PoolConformance, OrdinaryMemoryIsFreedInOrder) {
  const Stream stream = this->on().new_stream();
  void* words = this->on().allocate_plain(few_bytes, 0);
  this->on().fill(stream, words, few_words, 3);
  this->on().deallocate(words, stream);
  this->on().synchronize(stream);
}

TYPED_TEST(PoolConformance, AnOrdinaryFreeOfABlockMakesItReusableForAll) {
  StreamAllocator& on = this->on();
  const Stream from = on.new_stream(), to = on.new_stream();
  const auto pool = this->tight({false, false, false});
  void* block = pool->allocate(segment_bytes, from);
  on.fill(from, block, few_words, 1);
  on.synchronize(from);
  on.free(block);
  void* again = pool->allocate(segment_bytes, to);
  EXPECT_EQ(again, block);
  on.deallocate(again, to);
  on.synchronize(to);
}

// --- Reuse by other streams

/// Whether `to` gets the block of a pool with room for one.
bool reused(StreamAllocator& on, PoolUnderTest& pool, Stream to) {
  void* again = pool.allocate(segment_bytes, to);
  if (again != nullptr) on.deallocate(again, to);
  return again != nullptr;
}

TYPED_TEST(PoolConformance, WithoutPoliciesAWaitMakesMemoryReusable) {
  StreamAllocator& on = this->on();
  const Stream from = on.new_stream(), to = on.new_stream();
  const auto pool = this->tight({false, false, false});
  on.deallocate(pool->allocate(segment_bytes, from), from);
  on.watch_end(from);
  EXPECT_FALSE(reused(on, *pool, to)) << "complete, but nobody waited";
  on.synchronize(from);
  EXPECT_TRUE(reused(on, *pool, to));
}

TYPED_TEST(PoolConformance, OpportunisticReuseWantsTheFreeComplete) {
  StreamAllocator& on = this->on();
  const Stream from = on.new_stream(), to = on.new_stream();
  const auto pool = this->tight({false, true, false});
  void* block = pool->allocate(segment_bytes, from);
  on.stop(from);
  on.deallocate(block, from);
  EXPECT_FALSE(reused(on, *pool, to));
  on.let_go(from);
  on.watch_end(from);
  // CUDA may learn of the end later than the host does.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  bool is_reused = false;
  while (!is_reused && std::chrono::steady_clock::now() < deadline) {
    is_reused = reused(on, *pool, to);
  }
  EXPECT_TRUE(is_reused);
}

TYPED_TEST(PoolConformance, EventDependenciesAreFollowed) {
  StreamAllocator& on = this->on();
  const Stream from = on.new_stream(), to = on.new_stream();
  const auto pool = this->tight({true, false, false});
  void* block = pool->allocate(segment_bytes, from);
  on.stop(from);
  on.order(to, from);
  on.deallocate(block, from);
  EXPECT_FALSE(reused(on, *pool, to)) << "freed after the event";
  on.order(to, from);
  EXPECT_TRUE(reused(on, *pool, to));
  on.let_go(from);
  on.synchronize(from);
}

TYPED_TEST(PoolConformance, EventDependenciesReachFurther) {
  StreamAllocator& on = this->on();
  const Stream from = on.new_stream(), between = on.new_stream(), to = on.new_stream();
  const auto pool = this->tight({true, false, false});
  void* block = pool->allocate(segment_bytes, from);
  on.stop(from);
  on.deallocate(block, from);
  on.order(between, from);
  on.order(to, between);
  EXPECT_TRUE(reused(on, *pool, to));
  on.let_go(from);
  on.synchronize(from);
}

TYPED_TEST(PoolConformance, EventDependenciesCanBeSwitchedOff) {
  StreamAllocator& on = this->on();
  const Stream from = on.new_stream(), to = on.new_stream();
  const auto pool = this->tight({false, false, false});
  void* block = pool->allocate(segment_bytes, from);
  on.stop(from);
  on.deallocate(block, from);
  on.order(to, from);
  EXPECT_FALSE(reused(on, *pool, to));
  pool->set_reuse({true, false, false});
  EXPECT_TRUE(reused(on, *pool, to));
  on.let_go(from);
  on.synchronize(from);
}

TYPED_TEST(PoolConformance, AnInternalDependencyMakesTheStreamWait) {
  StreamAllocator& on = this->on();
  const Stream from = on.new_stream(), to = on.new_stream();
  const auto pool = this->tight({false, false, true});
  void* block = pool->allocate(segment_bytes, from);
  on.stop(from);
  on.fill(from, block, few_words, 1);
  on.deallocate(block, from);
  void* again = pool->allocate(segment_bytes, to);
  EXPECT_EQ(again, block);
  on.fill(to, again, few_words, 2);
  on.let_go(from);
  expect_words(this->on(), to, again, 2);
  on.deallocate(again, to);
  on.synchronize(to);
}

// --- Pools

TYPED_TEST(PoolConformance, ADefaultPoolIsCurrentAndCannotBeDestroyed) {
  const auto pool = this->on().default_pool(0);
  EXPECT_TRUE(this->on().same(pool, this->on().current_pool(0)));
  EXPECT_FALSE(pool->destroy());
}

TYPED_TEST(PoolConformance, AllocationIsFromTheCurrentPoolOfTheStreamsGpu) {
  if (!this->has_two_gpus()) GTEST_SKIP() << "SKIPPED: one GPU";
  StreamAllocator& on = this->on();
  const Stream stream = on.new_stream(1);
  const auto pool = on.make_pool(1, {});
  on.set_current(pool);
  EXPECT_TRUE(on.same(on.current_pool(1), pool));
  EXPECT_TRUE(on.same(on.current_pool(0), on.default_pool(0)));
  void* block = on.allocate(few_bytes, stream);
  EXPECT_GT(pool->stats().used, 0u);
  on.deallocate(block, stream);
  on.synchronize(stream);
  EXPECT_TRUE(pool->destroy());
  EXPECT_TRUE(on.same(on.current_pool(1), on.default_pool(1)));
}

TYPED_TEST(PoolConformance, BlocksOfADestroyedPoolStayUntilTheyAreFreed) {
  StreamAllocator& on = this->on();
  const Stream stream = on.new_stream();
  const auto pool = on.make_pool(0, {});
  void* words = pool->allocate(few_bytes, stream);
  EXPECT_TRUE(pool->destroy());
  on.fill(stream, words, few_words, 4);
  expect_words(this->on(), stream, words, 4);
  on.deallocate(words, stream);
  on.synchronize(stream);
}

TYPED_TEST(PoolConformance, APoolKeepsToItsLimit) {
  StreamAllocator& on = this->on();
  const Stream stream = on.new_stream();
  const auto pool = on.make_pool(0, {0, 2 * segment_bytes, {}});
  void* first = pool->allocate(segment_bytes, stream);
  void* second = pool->allocate(segment_bytes, stream);
  EXPECT_NE(second, nullptr);
  EXPECT_EQ(pool->allocate(segment_bytes, stream), nullptr);
  on.deallocate(first, stream);
  on.deallocate(second, stream);
  on.synchronize(stream);
}

TYPED_TEST(PoolConformance, AnotherGpuMayBeGivenAccess) {
  if (!this->has_two_gpus()) GTEST_SKIP() << "SKIPPED: one GPU";
  StreamAllocator& on = this->on();
  const Stream own = on.new_stream(0), other = on.new_stream(1);
  const auto pool = on.make_pool(0, {});
  void* before = pool->allocate(few_bytes, own);
  pool->allow_access(1);
  void* after = pool->allocate(few_bytes, own);
  for (void* words : {before, after}) {
    on.fill(own, words, few_words, 8);
    on.order(other, own);
    expect_words(this->on(), other, words, 8);
    on.deallocate(words, other);
  }
  on.synchronize(other);
}

// --- Memory that a pool holds

TYPED_TEST(PoolConformance, AWaitGivesBackWhatExceedsTheThreshold) {
  StreamAllocator& on = this->on();
  const Stream stream = on.new_stream();
  const auto pool = on.make_pool(0, {});
  on.deallocate(pool->allocate(segment_bytes, stream), stream);
  EXPECT_GT(pool->stats().reserved, 0u) << "not before";
  on.synchronize(stream);
  EXPECT_EQ(pool->stats().reserved, 0u);
  pool->set_release_threshold(SIZE_MAX);
  on.deallocate(pool->allocate(segment_bytes, stream), stream);
  on.synchronize(stream);
  EXPECT_GE(pool->stats().reserved, segment_bytes);
  EXPECT_EQ(pool->stats().used, 0u);
}

TYPED_TEST(PoolConformance, TrimKeepsTheMinimumAndWhatIsUsed) {
  StreamAllocator& on = this->on();
  const Stream stream = on.new_stream();
  const auto pool = on.make_pool(0, {SIZE_MAX, 0, {}});
  std::vector<void*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(pool->allocate(segment_bytes, stream));
  const std::size_t all = pool->stats().reserved;
  pool->trim(0);
  EXPECT_EQ(pool->stats().reserved, all);
  for (void* block : blocks) on.deallocate(block, stream);
  on.synchronize(stream);
  pool->trim(all);
  EXPECT_EQ(pool->stats().reserved, all) << "no more than the minimum";
  pool->trim(segment_bytes);
  EXPECT_LT(pool->stats().reserved, all);
  EXPECT_GE(pool->stats().reserved, segment_bytes);
  pool->trim(0);
  EXPECT_EQ(pool->stats().reserved, 0u);
}

TYPED_TEST(PoolConformance, TrimCountsFreesThatAreNotCompleteAsUsed) {
  StreamAllocator& on = this->on();
  const Stream stream = on.new_stream();
  const auto pool = on.make_pool(0, {SIZE_MAX, 0, {}});
  void* block = pool->allocate(segment_bytes, stream);
  on.stop(stream);
  on.deallocate(block, stream);
  pool->trim(0);
  EXPECT_GE(pool->stats().reserved, segment_bytes);
  on.let_go(stream);
  on.synchronize(stream);
  pool->trim(0);
  EXPECT_EQ(pool->stats().reserved, 0u);
}

TYPED_TEST(PoolConformance, HighMarksFallToTheCurrentValues) {
  StreamAllocator& on = this->on();
  const Stream stream = on.new_stream();
  const auto pool = on.make_pool(0, {});
  void* small = pool->allocate(segment_bytes, stream);
  void* large = pool->allocate(3 * segment_bytes, stream);
  on.deallocate(large, stream);
  on.synchronize(stream);
  EXPECT_EQ(pool->stats().used, segment_bytes);
  EXPECT_EQ(pool->stats().used_high, 4 * segment_bytes);
  EXPECT_GE(pool->stats().reserved_high, 4 * segment_bytes);
  pool->reset_high_marks();
  EXPECT_EQ(pool->stats().used_high, pool->stats().used);
  EXPECT_EQ(pool->stats().reserved_high, pool->stats().reserved);
  on.deallocate(small, stream);
  on.synchronize(stream);
}

}  // namespace
}  // namespace vma
