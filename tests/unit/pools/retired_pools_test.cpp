// Goal: a destroyed pool gives everything back once, whatever its last use is and whatever goes on
// beside `destroy`, and nobody asks for what only a later call can tell. Method: pools on a machine
// whose calls a test interrupts, counts and fails.
#include "pools/pools.hpp"
#include "unit/memory/memory_rig.hpp"
#include "unit/pools/interrupted_driver.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace vma {
namespace {

class RetiredPoolsTest : public testing::Test {
 protected:
  ~RetiredPoolsTest() override { memory.chunks().slow_calls().stop(); }

  Pools::PoolPointer make() {
    PoolOptions options;
    options.release_threshold = SIZE_MAX;  // Does not count for a destroyed pool.
    return pools.make(gpu(0), options);
  }
  Address allocate() { return pool->allocate(1 << 20, stream.handle, 256); }
  void deallocate(Address block) { pools.deallocate(*pools.block_at(block), stream.handle); }
  bool nothing_is_left() {
    return comes_true([&] { return memory.registry().all().empty(); });
  }
  void wait() {
    const Pools::Past past = pools.past();
    pools.complete(past, memory.contexts().await_work());
  }
  /// Until the slow-call thread has asked for everything that it waits for that many times.
  void await_looks(int count) {
    std::atomic<bool> done{false};
    memory.chunks().slow_calls().post_when([&count] { return --count == 0; },
                                           [&done] { done = true; });
    EXPECT_TRUE(comes_true([&] { return done.load(); }));
  }

  MemoryRig rig;
  InterruptedDriver driver{rig.driver()};
  Memory memory{driver, rig.topology(), MemoryLimits{}};
  bool lasts = false;
  Pools pools{driver, memory, [this](StreamHandle) { return lasts; }};
  const BoundStream stream = rig.new_stream(0);
  Pools::PoolPointer pool = make();
};

TEST_F(RetiredPoolsTest, TheLastFreeMayGoBesideDestroy) {
  const Address block = allocate();
  driver.before_next(Call::stream_now, [&] { pools.destroy(pool); });
  deallocate(block);
  EXPECT_TRUE(pool->retired());
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(RetiredPoolsTest, AnAllocationBesideDestroyIsRefused) {
  driver.before_next(Call::stream_now, [&] { pools.destroy(pool); });
  expect_error(ErrorKind::invalid_argument, [&] { allocate(); });
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(RetiredPoolsTest, AnAllocationOfAFreedBlockBesideDestroyIsRefused) {
  lasts = true;
  deallocate(allocate());
  rig.stop(stream);
  deallocate(allocate());  // Pending, so the pool does not end yet.
  driver.before_next(Call::stream_now, [&] { pools.destroy(pool); });
  expect_error(ErrorKind::invalid_argument, [&] { allocate(); });
  rig.let_all_go();
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(RetiredPoolsTest, APoolThatIsDestroyedWhileItGrowsLivesUntilTheBlockIsFree) {
  driver.before_next(Call::map, [&] { pools.destroy(pool); });
  const Address block = allocate();
  EXPECT_TRUE(pool->retired());
  ASSERT_NE(pools.block_at(block), nullptr);
  deallocate(block);
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(RetiredPoolsTest, AWaitThatFailsIsNotAFailedDestroy) {
  deallocate(allocate());
  driver.fail(Call::synchronize_context);
  EXPECT_NO_THROW(pools.destroy(pool));
  EXPECT_EQ(driver.failed(), 1);
  driver.fail_nothing();
  EXPECT_FALSE(memory.registry().all().empty()) << "the free may be pending";
  wait();
  EXPECT_TRUE(nothing_is_left()) << "whatever the release threshold was";
}

TEST_F(RetiredPoolsTest, FreesThatCannotBeMarkedAreNotAskedFor) {
  lasts = true;
  const Address block = allocate();
  pools.destroy(pool);
  driver.fail(Call::record);
  deallocate(block);
  await_looks(100);
  EXPECT_GT(driver.failed(), 0);
  EXPECT_LT(driver.failed(), 10);
  driver.fail_nothing();
  EXPECT_FALSE(memory.registry().all().empty());
  wait();
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(RetiredPoolsTest, APinnedSegmentGoesBackWhenThePinEnds) {
  const Address block = allocate();
  const std::shared_ptr<Allocation> segment = memory.registry().all().front();
  ++segment->pins;
  deallocate(block);
  pools.destroy(pool);
  await_looks(3);
  EXPECT_FALSE(memory.registry().all().empty());
  --segment->pins;
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(RetiredPoolsTest, ThreadsAllocateAndFreeBesideDestroy) {
  lasts = true;
  std::vector<BoundStream> streams;
  for (int i = 0; i < 3; ++i) streams.push_back(rig.new_stream(0));
  for (int round = 0; round < 100; ++round) {
    pool = make();
    std::atomic<int> started{0};
    std::vector<std::thread> threads;
    for (const BoundStream own : streams) {
      threads.emplace_back([&, mine = pool, handle = own.handle] {
        try {
          for (std::uint64_t i = 1;; ++i) {
            const Address block = mine->allocate(i * 977 % 300'000 + 1, handle, 256);
            ++started;
            pools.deallocate(*pools.block_at(block), handle);
          }
        } catch (const Error& error) {
          EXPECT_EQ(to_string(error.kind()), to_string(ErrorKind::invalid_argument));
        }
      });
    }
    while (started < round % 10) std::this_thread::yield();
    pools.destroy(pool);
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_TRUE(nothing_is_left());
}

}  // namespace
}  // namespace vma
