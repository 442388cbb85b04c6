// Goal: allocation and free in the order of one stream, as CUDA's guide states it; what is refused.
// Method: blocks of a pool on a simulated machine, whose kernels write and compare through them.
#include "unit/pools/pool_rig.hpp"

#include <gtest/gtest.h>

#include <set>
#include <thread>

namespace vma {
namespace {

TEST(StreamOrder, ABlockIsUsableOnItsStreamAtOnce) {
  PoolRig rig;
  const Pool pool = rig.runtime().default_pool(gpu(0));
  auto* words = static_cast<std::uint64_t*>(pool.allocate(4096, rig.stream(0)));
  rig.fill_by(0, words, 512, 7);
  EXPECT_EQ(rig.wrong_for(0, words, 512, 7), 0u);
  EXPECT_EQ(rig.wrong_for(1, words, 512, 7), 0u) << "every GPU that reaches the place may use it";
  pool.deallocate(words, rig.stream(0));
}

TEST(StreamOrder, ABlockFreedOnAStreamIsReusedThereWhileItsWorkRuns) {
  PoolRig rig;
  const Pool pool = rig.runtime().default_pool(gpu(0));
  const Stream stream = rig.new_stream();
  for (const std::size_t bytes : {1, 512, 10'000, 100'000, 2'000'000}) {
    void* first = pool.allocate(bytes, stream);
    rig.stop(stream);
    pool.deallocate(first, stream);
    EXPECT_EQ(pool.allocate(bytes, stream), first) << bytes;
    rig.let_go(stream);
    pool.deallocate(first, stream);
  }
}

TEST(StreamOrder, SmallerBlocksAreCutOutOfALargerOneThatTheStreamFreed) {
  PoolRig rig;
  PoolOptions options;
  options.max_bytes = 8 << 20;
  const Pool pool = rig.runtime().make_pool(gpu(0), options);
  const Stream stream = rig.new_stream();
  void* whole = pool.allocate(8 << 20, stream);
  rig.stop(stream);
  pool.deallocate(whole, stream);
  std::vector<void*> parts;
  for (int i = 0; i < 4; ++i) parts.push_back(pool.allocate(2 << 20, stream));
  EXPECT_EQ(std::set<void*>(parts.begin(), parts.end()).size(), 4u);
  for (void* part : parts) pool.deallocate(part, stream);
  EXPECT_EQ(pool.allocate(8 << 20, stream), whole) << "and they are joined again";
  pool.deallocate(whole, stream);
  rig.let_go(stream);
}

// Otherwise a program that frees in pieces what it allocates in one cuts up all that is large.
TEST(StreamOrder, PiecesSideBySideAreReusedBeforeALargerBlockIsCut) {
  PoolRig rig;
  const Pool pool = rig.runtime().make_pool(gpu(0));
  const Stream stream = rig.new_stream();
  constexpr std::size_t piece_bytes = 1 << 20;
  pool.deallocate(pool.allocate(12 * piece_bytes, stream), stream);  // All lie in one segment.
  void* const large = pool.allocate(8 * piece_bytes, stream);
  void* const between = pool.allocate(piece_bytes, stream);
  void* const first = pool.allocate(piece_bytes, stream);
  void* const second = pool.allocate(piece_bytes, stream);
  void* const end = pool.allocate(piece_bytes, stream);
  const std::size_t reserved = pool.stats().reserved_bytes;
  rig.stop(stream);  // Nothing is complete.
  for (void* block : {large, first, second}) pool.deallocate(block, stream);
  EXPECT_EQ(pool.allocate(2 * piece_bytes, stream), std::min(first, second));
  EXPECT_EQ(pool.allocate(8 * piece_bytes, stream), large);
  EXPECT_EQ(pool.stats().reserved_bytes, reserved);
  for (void* block : {large, between, std::min(first, second), end}) {
    pool.deallocate(block, stream);
  }
  rig.let_go(stream);
}

TEST(StreamOrder, AlignmentIs256AndMoreByRequest) {
  PoolRig rig;
  const Pool pool = rig.runtime().default_pool(gpu(0));
  std::vector<void*> blocks;
  for (std::size_t alignment = 1; alignment <= 65'536; alignment *= 2) {
    for (const std::size_t bytes : {1, 700, 40'000}) {
      blocks.push_back(pool.allocate(bytes, rig.stream(0), alignment));
      EXPECT_EQ(
          reinterpret_cast<std::uintptr_t>(blocks.back()) % std::max<std::size_t>(alignment, 256),
          0u)
          << bytes << " bytes, alignment " << alignment;
    }
  }
  for (void* block : blocks) pool.deallocate(block, rig.stream(0));
  for (const std::size_t alignment : {std::size_t{0}, std::size_t{3}, std::size_t{4} << 20}) {
    EXPECT_EQ(kind_of_error([&] { pool.allocate(1, rig.stream(0), alignment); }),
              ErrorKind::invalid_argument);
  }
}

TEST(StreamOrder, AFreedBlockIsNotReusedForAnAlignmentThatItDoesNotHave) {
  PoolRig rig;
  const Pool pool = rig.runtime().default_pool(gpu(0));
  for (const auto& [bytes, aligned_bytes] : {std::pair{768, 512}, std::pair{90'000, 88'000}}) {
    std::vector<void*> blocks;
    for (int i = 0; i < 8; ++i) {
      blocks.push_back(pool.allocate(static_cast<std::size_t>(bytes), rig.stream(0)));
    }
    for (void* block : blocks) pool.deallocate(block, rig.stream(0));
    for (void*& block : blocks) {
      block = pool.allocate(static_cast<std::size_t>(aligned_bytes), rig.stream(0), 512);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 512, 0u);
    }
    for (void* block : blocks) pool.deallocate(block, rig.stream(0));
  }
}

TEST(StreamOrder, BlocksDoNotOverlap) {
  PoolRig rig;
  const Pool pool = rig.runtime().default_pool(gpu(0));
  std::vector<std::pair<std::uint64_t*, std::uint64_t>> blocks;
  for (std::uint64_t i = 1; i < 200; ++i) {
    const std::uint64_t words = 1 + i * i * 37 % 4000;
    blocks.emplace_back(static_cast<std::uint64_t*>(pool.allocate(words * 8, rig.stream(0))),
                        words);
    rig.fill_by(0, blocks.back().first, words, i << 32);
  }
  std::uint64_t i = 0;
  for (const auto& [block, words] : blocks) {
    EXPECT_EQ(rig.wrong_for(0, block, words, ++i << 32), 0u);
    pool.deallocate(block, rig.stream(0));
  }
}

TEST(StreamOrder, WhatIsNotAllocatedIsNotFreed) {
  PoolRig rig;
  const Pool pool = rig.runtime().default_pool(gpu(0));
  const Stream stream = rig.stream(0);
  auto* block = static_cast<std::byte*>(pool.allocate(1000, stream));
  const auto kind = [&](void* pointer) {
    return kind_of_error([&] { pool.deallocate(pointer, stream); });
  };
  for (const int inside_bytes : {8, 255, 256}) {
    EXPECT_EQ(kind(block + inside_bytes), ErrorKind::unknown_pointer) << inside_bytes;
  }
  EXPECT_EQ(kind(&rig), ErrorKind::unknown_pointer);
  pool.deallocate(nullptr, stream);
  pool.deallocate(block, stream);
  EXPECT_EQ(kind(block), ErrorKind::unknown_pointer) << "a second time";
  EXPECT_EQ(kind_of_error([&] { rig.runtime().free(block); }), ErrorKind::unknown_pointer);
  EXPECT_EQ(kind_of_error([&] { pool.allocate(0, stream); }), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of_error([&] { Pool().allocate(1, stream); }), ErrorKind::invalid_argument);
}

// cudaMalloc and cudaFreeAsync, cudaMallocAsync and cudaFree go together.
TEST(StreamOrder, OrdinaryMemoryAndBlocksMayBeFreedInBothWays) {
  PoolRig rig;
  const Pool pool = rig.runtime().default_pool(gpu(0));
  const Stream stream = rig.new_stream();
  pool.deallocate(rig.alloc(8192, gpu(0)), stream);
  void* block = pool.allocate(5000, stream);
  rig.runtime().free_async(block, stream);
  EXPECT_EQ(pool.allocate(5000, stream), block);
  rig.stop(stream);
  rig.runtime().free(block);  // Does not wait for the stream.
  EXPECT_EQ(pool.stats().used_bytes, 0u);
  rig.let_go(stream);
}

TEST(StreamOrder, TheBuiltInStreamsWork) {
  PoolRig rig;
  const Pool pool = rig.runtime().default_pool(gpu(0));
  rig.machine().set_current_context(
      parts_of(rig.runtime()).machinery->launcher.bind(rig.stream(0)).context);
  std::set<void*> blocks;
  for (const std::uint64_t handle : {0, 1, 2}) {
    auto* const stream = reinterpret_cast<Stream>(handle);
    void* block = pool.allocate(3000, stream);
    pool.deallocate(block, stream);
    EXPECT_EQ(pool.allocate(3000, stream), block);
    pool.deallocate(block, stream);
    blocks.insert(block);
  }
  std::thread([&] {
    rig.machine().set_current_context(
        parts_of(rig.runtime()).machinery->launcher.bind(rig.stream(0)).context);
    auto* const own = reinterpret_cast<Stream>(std::uint64_t{2});
    rig.stop(rig.stream(0));
    pool.deallocate(pool.allocate(3000, own), own);
    rig.let_go(rig.stream(0));
  }).join();
  rig.machine().set_current_context({});
}

TEST(StreamOrder, TheCurrentPoolIsThatOfTheStreamsGpu) {
  PoolRig rig;
  Runtime& runtime = rig.runtime();
  const Pool other = runtime.make_pool(gpu(1));
  void* block = runtime.alloc_async(100, rig.stream(1));
  EXPECT_GT(runtime.default_pool(gpu(1)).stats().used_bytes, 0u);
  EXPECT_EQ(rig.place(block), gpu(1));
  runtime.free_async(block, rig.stream(1));
  runtime.set_current_pool(other);
  EXPECT_EQ(runtime.current_pool(gpu(1)), other);
  EXPECT_EQ(runtime.current_pool(gpu(0)), runtime.default_pool(gpu(0)));
  block = runtime.alloc_async(100, rig.stream(1));
  EXPECT_GT(other.stats().used_bytes, 0u);
  runtime.free_async(block, rig.stream(1));
}

TEST(StreamOrder, TheHighMarkIsWhatStreamsUseAtATime) {
  constexpr std::size_t large = 4 << 20;
  PoolRig rig;
  const Pool pool = rig.runtime().make_pool(gpu(0));
  const Stream first = rig.new_stream(), second = rig.new_stream();
  for (int turn = 0; turn < 3; ++turn) {
    for (const Stream stream : {first, second}) {
      pool.deallocate(pool.allocate(large, stream), stream);
    }
  }
  EXPECT_EQ(pool.stats().used_high_bytes, large);
  void* a = pool.allocate(large, first);
  void* b = pool.allocate(large, second);
  pool.deallocate(a, second);
  pool.deallocate(b, first);
  EXPECT_EQ(pool.stats().used_high_bytes, 2 * large);
  EXPECT_EQ(pool.stats().used_bytes, 0u);
}

TEST(StreamOrder, TheHighMarkRisesWhenStreamsUseTogetherWhatEachHadAlone) {
  constexpr std::size_t large = 4 << 20;
  PoolRig rig;
  PoolOptions options;
  options.reuse = {false, false, false};
  const Pool pool = rig.runtime().make_pool(gpu(0), options);
  const Stream first = rig.new_stream(), second = rig.new_stream();
  for (const Stream stream : {first, second}) {
    pool.deallocate(pool.allocate(large, stream), stream);
  }
  void* a = pool.allocate(large, first);
  void* b = pool.allocate(large, second);
  pool.deallocate(a, first);
  pool.deallocate(b, second);
  EXPECT_EQ(pool.stats().used_high_bytes, 2 * large);
}

TEST(StreamOrder, StatisticsHaveHighMarksThatFallToTheCurrentValues) {
  PoolRig rig;
  const Pool pool = rig.runtime().make_pool(gpu(0));
  void* a = pool.allocate(1 << 20, rig.stream(0));
  void* b = pool.allocate(1 << 20, rig.stream(0));
  EXPECT_EQ(pool.stats().used_bytes, 2u << 20);
  pool.deallocate(a, rig.stream(0));
  EXPECT_EQ(pool.stats().used_bytes, 1u << 20);
  EXPECT_EQ(pool.stats().used_high_bytes, 2u << 20);
  EXPECT_EQ(pool.stats().pending_bytes, 1u << 20);
  EXPECT_GE(pool.stats().reserved_bytes, 2u << 20);
  pool.reset_high_marks();
  EXPECT_EQ(pool.stats().used_high_bytes, 1u << 20);
  EXPECT_EQ(pool.stats().reserved_high_bytes, pool.stats().reserved_bytes);
  pool.deallocate(b, rig.stream(0));
}

TEST(StreamOrder, APoolStaysBelowItsLimit) {
  PoolRig rig;
  PoolOptions options;
  options.max_bytes = 2 << 20;
  const Pool pool = rig.runtime().make_pool(gpu(0), options);
  void* block = pool.allocate(1 << 20, rig.stream(0));
  void* next = pool.allocate(1 << 20, rig.stream(0));
  EXPECT_EQ(kind_of_error([&] { pool.allocate(256, rig.stream(0)); }), ErrorKind::out_of_memory);
  pool.deallocate(block, rig.stream(0));
  pool.deallocate(next, rig.stream(0));
}

TEST(StreamOrder, SmallAllocationsShareChunks) {
  PoolRig rig;
  AllocOptions options;
  options.pool = true;
  std::vector<std::uint64_t*> blocks;
  const std::size_t before = rig.runtime().stats().allocations;
  for (std::uint64_t i = 0; i < 64; ++i) {
    blocks.push_back(static_cast<std::uint64_t*>(rig.runtime().alloc(256, gpu(0), options)));
    rig.write(blocks.back(), 32, i << 32);
  }
  EXPECT_LT(rig.runtime().stats().allocations - before, 10u);
  for (std::uint64_t i = 0; i < 64; ++i) {
    EXPECT_EQ(rig.wrong(blocks[i], 32, i << 32), 0u);
    rig.runtime().free(blocks[i]);
  }
}

}  // namespace
}  // namespace vma
