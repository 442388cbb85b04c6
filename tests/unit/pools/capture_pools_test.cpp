// Goal: pools while a stream captures. Method: graphs whose kernels write to blocks that were
// allocated and freed in their capture, launched several times.
#include "unit/pools/pool_rig.hpp"

#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

namespace vma {
namespace {

class PoolCaptures : public testing::Test {
 protected:
  void begin() { rig.driver().begin_capture(bound, CaptureMode::global); }
  void end() {
    const GraphHandle graph = rig.driver().end_capture(bound);
    ready = rig.driver().instantiate(graph);
    rig.driver().destroy_graph(graph);
  }
  void launch() {
    rig.driver().launch_graph(bound, ready);
    rig.finish(stream);
  }
  void drop() { rig.driver().destroy_exec_graph(ready); }
  void fill(void* words, std::uint64_t count, std::uint64_t seed) {
    rig.runtime().launch(stream, fill_kernel(), {}, {},
                         KernelArguments::of(static_cast<std::uint64_t*>(words), count, seed));
  }

  PoolRig rig;
  const Stream stream = rig.new_stream();
  const BoundStream bound = parts_of(rig.runtime()).machinery->launcher.bind(stream);
  const Pool pool = rig.runtime().make_pool(gpu(0));
  ExecGraphHandle ready{};
};

TEST_F(PoolCaptures, AnAddressIsTheSameInEveryLaunch) {
  begin();
  void* words = pool.allocate(8192, stream);
  fill(words, 1024, 5);
  end();
  for (int i = 0; i < 3; ++i) {
    rig.write(static_cast<std::uint64_t*>(words), 1024, 0);
    launch();
    EXPECT_EQ(rig.wrong(static_cast<std::uint64_t*>(words), 1024, 5), 0u);
  }
  pool.deallocate(words, stream);  // Freed outside, after the launches.
  drop();
}

TEST_F(PoolCaptures, WhatIsFreedInTheCaptureIsReusedThereAndNowhereElse) {
  begin();
  void* first = pool.allocate(1 << 20, stream);
  fill(first, 1024, 1);
  pool.deallocate(first, stream);
  EXPECT_EQ(pool.allocate(1 << 20, stream), first);
  pool.deallocate(first, stream);
  end();
  void* outside = pool.allocate(1 << 20, stream);
  EXPECT_NE(outside, first) << "a launch may use it at any time";
  launch();
  pool.deallocate(outside, stream);
  EXPECT_GT(pool.stats().used_bytes, 0u) << "kept for the graph";
  drop();
  pool.trim(0);
  EXPECT_EQ(pool.stats().used_bytes, 0u);
  EXPECT_EQ(pool.stats().reserved_bytes, 0u);
}

TEST_F(PoolCaptures, ABlockThatIsNotFreedOutlivesTheGraph) {
  begin();
  auto* words = static_cast<std::uint64_t*>(pool.allocate(8192, stream));
  fill(words, 1024, 9);
  end();
  launch();
  drop();
  pool.trim(0);
  EXPECT_EQ(rig.wrong(words, 1024, 9), 0u);
  pool.deallocate(words, stream);
  EXPECT_EQ(pool.stats().used_bytes, 0u);
}

TEST_F(PoolCaptures, AFreeAfterEachLaunchIsAllowed) {
  begin();
  void* words = pool.allocate(8192, stream);
  end();
  for (int i = 0; i < 3; ++i) {
    launch();
    pool.deallocate(words, stream);
  }
  rig.stop(stream);
  pool.deallocate(words, stream);
  drop();
  pool.trim(0);
  EXPECT_GT(pool.stats().used_bytes, 0u) << "the last free is not complete";
  rig.let_go(stream);
  pool.trim(0);
  EXPECT_EQ(pool.stats().used_bytes, 0u);
}

TEST_F(PoolCaptures, ADestroyedPoolLivesUntilItsGraphIsGone) {
  for (const bool freed_inside : {true, false}) {
    PoolOptions options;
    options.release_threshold = SIZE_MAX;
    Pool destroyed = rig.runtime().make_pool(gpu(0), options);
    begin();
    void* words = destroyed.allocate(8192, stream);
    fill(words, 1024, 5);
    if (freed_inside) destroyed.deallocate(words, stream);
    end();
    destroyed.destroy();
    launch();
    if (!freed_inside) rig.runtime().free_async(words, stream);
    launch();
    EXPECT_GT(destroyed.stats().reserved_bytes, 0u) << "kept for the graph";
    drop();
    EXPECT_TRUE(comes_true([&] { return destroyed.stats().reserved_bytes == 0; }));
  }
}

TEST_F(PoolCaptures, ABlockOfADestroyedPoolThatIsNotFreedOutlivesTheGraph) {
  Pool destroyed = rig.runtime().make_pool(gpu(0));
  begin();
  auto* words = static_cast<std::uint64_t*>(destroyed.allocate(8192, stream));
  fill(words, 1024, 7);
  end();
  destroyed.destroy();
  launch();
  drop();
  EXPECT_EQ(rig.wrong(words, 1024, 7), 0u);
  rig.runtime().free_async(words, stream);
  EXPECT_TRUE(comes_true([&] { return destroyed.stats().reserved_bytes == 0; }));
}

TEST_F(PoolCaptures, MemoryFromOutsideIsNotFreedInACapture) {
  void* block = pool.allocate(1000, stream);
  begin();
  EXPECT_EQ(kind_of_error([&] { pool.deallocate(block, stream); }), ErrorKind::invalid_argument);
  void* inside = pool.allocate(1000, stream);
  pool.deallocate(inside, stream);
  EXPECT_EQ(kind_of_error([&] { pool.deallocate(inside, stream); }), ErrorKind::unknown_pointer);
  end();
  EXPECT_EQ(kind_of_error([&] { pool.deallocate(inside, stream); }), ErrorKind::invalid_argument)
      << "freed in its capture";
  pool.deallocate(block, stream);
  drop();
}

/// The handle of the thread's own stream names another stream in each thread.
TEST_F(PoolCaptures, AStreamDoesNotGetWhatThatOfAnotherThreadFreed) {
  Driver& driver = rig.driver();
  const BoundStream own{bound.context, StreamHandle{2}};
  const EventHandle fork = driver.create_event(bound.context);
  std::vector<EventHandle> joins;
  std::vector<void*> blocks;
  for (int i = 0; i < 2; ++i) joins.push_back(driver.create_event(bound.context));
  driver.begin_capture(bound, CaptureMode::relaxed);
  driver.record(fork, bound);
  for (const EventHandle join : joins) {
    std::thread([&] {
      driver.set_current_context(bound.context);
      driver.stream_wait_event(own, fork);
      void* block = pool.allocate(1 << 20, PoolRig::as_stream(own));
      pool.deallocate(block, PoolRig::as_stream(own));
      EXPECT_EQ(pool.allocate(1 << 20, PoolRig::as_stream(own)), block) << "its own";
      pool.deallocate(block, PoolRig::as_stream(own));
      blocks.push_back(block);
      driver.record(join, own);
    }).join();
    driver.stream_wait_event(bound, join);
  }
  end();
  EXPECT_NE(blocks[0], blocks[1]) << "no order between the two streams";
  drop();
  for (const EventHandle join : joins) driver.destroy_event(join);
  driver.destroy_event(fork);
}

TEST_F(PoolCaptures, AnInvalidatedCaptureGivesItsMemoryBack) {
  begin();
  void* block = pool.allocate(1000, stream);
  pool.deallocate(block, stream);
  EXPECT_THROW(rig.driver().query_stream(bound), Error);
  EXPECT_THROW(rig.driver().end_capture(bound), Error);
  pool.trim(0);
  EXPECT_EQ(pool.stats().used_bytes, 0u);
}

TEST_F(PoolCaptures, OtherStreamsAreNotDisturbed) {
  const Stream other = rig.new_stream();
  pool.deallocate(pool.allocate(1 << 20, stream), stream);
  begin();
  void* block = pool.allocate(1 << 20, other);  // Asks for the frees of the stream that captures.
  pool.deallocate(block, other);
  pool.trim(0);
  end();
  drop();
}

TEST_F(PoolCaptures, ABlockDoesNotComeFromAFreeThatIsNotComplete) {
  void* block = pool.allocate(1 << 20, stream);
  rig.stop(stream);
  pool.deallocate(block, stream);
  begin();
  void* inside = pool.allocate(1 << 20, stream);
  EXPECT_NE(inside, block);
  pool.deallocate(inside, stream);
  end();
  drop();
  rig.let_go(stream);
}

}  // namespace
}  // namespace vma
