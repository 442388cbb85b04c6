// Goal: blocks without a stream: what is allocated now is no stream's, and what is freed now is
// everyone's. Method: streams that stand while memory of theirs is free, on a simulated machine.
#include "unit/pools/pool_rig.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

constexpr std::size_t bytes = 1 << 20;

TEST(AllocateNow, TakesNoMemoryWhoseFreeIsPending) {
  PoolRig rig;
  PoolOptions options;
  options.max_bytes = bytes;
  const Pool pool = rig.runtime().make_pool(gpu(0), options);
  const Stream stream = rig.new_stream();
  void* first = pool.allocate(bytes, stream);
  rig.stop(stream);
  pool.deallocate(first, stream);
  EXPECT_EQ(kind_of_error([&] { pool.allocate_now(bytes); }), ErrorKind::out_of_memory);
  rig.let_go(stream);
  pool.synchronize();
  auto* words = static_cast<std::uint64_t*>(pool.allocate_now(bytes));
  rig.fill_by(1, words, 100, 3);
  EXPECT_EQ(rig.wrong_for(0, words, 100, 3), 0u);
  pool.deallocate_now(words);
}

TEST(AllocateNow, WhatIsFreedNowIsReusedAtOnceByEveryStream) {
  PoolRig rig;
  PoolOptions options;
  options.max_bytes = bytes;
  const Pool pool = rig.runtime().make_pool(gpu(0), options);
  const Stream first = rig.new_stream(), second = rig.new_stream(1);
  rig.stop(first);
  rig.stop(second);
  for (const Stream stream : {first, second, first}) {
    void* block = pool.allocate(bytes, stream);
    pool.deallocate_now(block);
    EXPECT_EQ(pool.stats().pending_bytes, 0u);
    pool.deallocate_now(pool.allocate_now(bytes));
  }
}

TEST(AllocateNow, AFreeOfSuchABlockDoesNotWait) {
  PoolRig rig;
  const Pool pool = rig.runtime().make_pool(gpu(0));
  const Stream stream = rig.new_stream();
  void* block = pool.allocate_now(1000);
  rig.stop(stream);
  rig.runtime().free(block);
  EXPECT_EQ(pool.stats().used_bytes, 0u);
}

TEST(AllocateNow, RefusesWhatPoolsRefuse) {
  PoolRig rig;
  const Pool pool = rig.runtime().make_pool(gpu(0));
  for (const std::size_t alignment : {std::size_t{0}, std::size_t{3}, std::size_t{4} << 20}) {
    EXPECT_EQ(kind_of_error([&] { pool.allocate_now(1, alignment); }), ErrorKind::invalid_argument);
  }
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pool.allocate_now(1, 65'536)) % 65'536, 0u);
  auto* block = static_cast<std::byte*>(pool.allocate_now(1000));
  void* other = rig.alloc(8192, gpu(0));
  pool.deallocate_now(nullptr);
  for (void* pointer : {static_cast<void*>(block + 256), other, static_cast<void*>(&rig)}) {
    EXPECT_EQ(kind_of_error([&] { pool.deallocate_now(pointer); }), ErrorKind::unknown_pointer);
  }
  pool.deallocate_now(block);
  EXPECT_EQ(kind_of_error([&] { pool.deallocate_now(block); }), ErrorKind::unknown_pointer);
  rig.runtime().free(other);
}

}  // namespace
}  // namespace vma
