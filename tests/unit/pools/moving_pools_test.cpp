// Goal: a pool's memory moves while its blocks are allocated, used and freed. Method: moves of the
// whole pool and of parts, by one thread, beside other threads that allocate and free.
#include "unit/pools/pool_rig.hpp"

#include "memory/move_claim.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

namespace vma {
namespace {

TEST(MovingPools, BlocksKeepTheirAddressesAndBytes) {
  PoolRig rig;
  const Pool pool = rig.runtime().make_pool(gpu(0));
  std::vector<std::uint64_t*> blocks;
  for (std::uint64_t i = 0; i < 50; ++i) {
    blocks.push_back(static_cast<std::uint64_t*>(pool.allocate(8 * (100 + i * 50), rig.stream(0))));
    rig.write(blocks.back(), 100 + i * 50, i << 32);
  }
  for (const Place to : {gpu(1), host(0), gpu(0)}) {
    const GroupReport report = rig.runtime().migrate(pool, to);
    EXPECT_EQ(report.failed(), 0u);
    EXPECT_EQ(pool.place(), to);
    for (std::uint64_t i = 0; i < blocks.size(); ++i) {
      EXPECT_EQ(rig.place(blocks[i]), to);
      EXPECT_EQ(rig.wrong(blocks[i], 100 + i * 50, i << 32), 0u);
    }
    void* fresh = pool.allocate(4 << 20, rig.stream(0));
    EXPECT_EQ(rig.place(fresh), to) << "new memory is allocated there";
    pool.deallocate(fresh, rig.stream(0));
  }
  for (std::uint64_t* block : blocks) pool.deallocate(block, rig.stream(0));
}

TEST(MovingPools, ABlockMovesWithItsChunk) {
  PoolRig rig;
  PoolOptions options;
  options.chunk_bytes = 64 * 1024;
  const Pool pool = rig.runtime().make_pool(gpu(0), options);
  void* reserve = pool.allocate(1 << 20, rig.stream(0));
  pool.deallocate(reserve, rig.stream(0));
  void* block = pool.allocate(100 * 1024, rig.stream(0));
  const MigrationReport report = rig.runtime().migrate(block, gpu(1));
  EXPECT_EQ(report.bytes_asked % (64 * 1024), 0u);
  EXPECT_GE(report.bytes_asked, 100u * 1024);
  EXPECT_LT(report.bytes_asked, 1u << 20);
  EXPECT_EQ(rig.runtime().where(block).front().at, gpu(1));
  pool.deallocate(block, rig.stream(0));
}

TEST(MovingPools, AMoveThatFailsLeavesThePoolWhereItWas) {
  PoolRig rig;
  const Pool pool = rig.runtime().make_pool(gpu(0));
  void* block = pool.allocate(1 << 20, rig.stream(0));
  {
    const Pin pin = rig.runtime().pin(block);
    EXPECT_THROW(rig.runtime().migrate(pool, gpu(1)), Error);
  }
  EXPECT_EQ(pool.place(), gpu(0));
  void* more = pool.allocate(8 << 20, rig.stream(0));
  EXPECT_EQ(rig.place(more), gpu(0));
  EXPECT_EQ(kind_of_error([&] { rig.runtime().migrate(pool, gpu(7)); }),
            ErrorKind::invalid_argument);
  EXPECT_EQ(pool.place(), gpu(0));
  pool.deallocate(more, rig.stream(0));
  pool.deallocate(block, rig.stream(0));
}

TEST(MovingPools, RoomIsMadeWhereTheMemoryIs) {
  PoolRig rig;
  const Pool pool = rig.runtime().make_pool(gpu(0));
  pool.set_release_threshold(SIZE_MAX);
  void* block = pool.allocate(1 << 20, rig.stream(0));
  rig.runtime().migrate(block, gpu(1));
  void* large = pool.allocate(8 << 20, rig.stream(0));
  pool.deallocate(block, rig.stream(0));
  pool.deallocate(large, rig.stream(0));
  pool.synchronize();
  const std::size_t reserved = pool.stats().reserved_bytes;
  EXPECT_EQ(rig.pools().make_room(host(0)), 0u);
  const std::size_t room = rig.pools().make_room(gpu(1));
  EXPECT_GT(room, 0u);
  EXPECT_EQ(pool.stats().reserved_bytes, reserved - room);
  EXPECT_GT(pool.stats().reserved_bytes, 0u) << "what is at gpu(0)";
}

TEST(MovingPools, ParkingTakesAPoolByItsTag) {
  PoolRig rig;
  PoolOptions options;
  options.tag = "cache";
  const Pool pool = rig.runtime().make_pool(gpu(0), options);
  auto* words = static_cast<std::uint64_t*>(pool.allocate(8192, rig.stream(0)));
  rig.write(words, 1024, 4);
  rig.runtime().park("cache");
  EXPECT_EQ(rig.place(words), host(0));
  EXPECT_EQ(rig.wrong(words, 1024, 4), 0u);
  rig.runtime().resume("cache");
  EXPECT_EQ(rig.place(words), gpu(0));
  pool.deallocate(words, rig.stream(0));
}

TEST(MovingPools, ATrimWaitsForTheMoveOfWhatItGivesBack) {
  PoolRig rig;
  const Pool pool = rig.runtime().make_pool(gpu(0));
  void* block = pool.allocate(1 << 20, rig.stream(0));
  const auto allocation = parts_of(rig.runtime()).machinery->memory.require_around(block, "a test");
  pool.deallocate(block, rig.stream(0));
  std::optional<MoveClaim> move = MoveClaim::take(allocation);
  std::atomic<bool> trimmed{false};
  std::thread trimming([&] {
    pool.trim(0);
    trimmed = true;
  });
  while (!allocation->being_freed && !trimmed) std::this_thread::yield();
  move.reset();
  trimming.join();
  EXPECT_EQ(pool.stats().reserved_bytes, 0u);
}

TEST(MovingPools, AllocationAndFreeGoOnBesideMoves) {
  PoolRig rig;
  const Pool pool = rig.runtime().make_pool(gpu(0));
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (std::uint64_t which = 0; which < 3; ++which) {
    threads.emplace_back([&, stream = rig.new_stream(), which] {
      std::uint64_t round = 0;
      while (!done) {
        const std::uint64_t words = 64 + (++round * 977 + which) % 5000;
        auto* block = static_cast<std::uint64_t*>(pool.allocate(8 * words, stream));
        rig.write(block, words, which << 48 | round);
        EXPECT_EQ(rig.wrong(block, words, which << 48 | round), 0u);
        pool.deallocate(block, stream);
        if (round % 16 == 0) pool.trim(0);
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    try {
      rig.runtime().migrate(pool, i % 2 == 0 ? gpu(1) : gpu(0));
    } catch (const Error& error) {  // A segment was given back meanwhile.
      EXPECT_TRUE(error.kind() == ErrorKind::unknown_pointer || error.group() != nullptr)
          << error.what();
    }
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace vma
