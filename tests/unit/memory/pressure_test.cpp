// Goal: the cache, including the reserve for page tables, is given up before an allocation is
// refused; a refusal lists the holders of memory; reserve and trim do what they promise.
#include "unit/memory/memory_rig.hpp"

#include "base/printable.hpp"
#include "base/units.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

MemoryLimits capped(std::uint64_t pages) {
  MemoryLimits limits;
  limits.capacity_bytes[gpu(0)] = (pages + 2) * page_bytes;  // Includes the keeper and its spare.
  return limits;
}

TEST(MemoryPressure, TrimsTheCacheBeforeItRefuses) {
  MemoryRig rig("test-2", capped(8));
  rig.free(rig.alloc(8, gpu(0), 1));
  EXPECT_EQ(rig.cached(gpu(0)), 8 * page_bytes);
  const auto allocation = rig.alloc(8, gpu(0), 4);  // Needs chunks of another size.
  EXPECT_EQ(rig.cached(gpu(0)), 0u);
  rig.expect_shown(*allocation);
  rig.memory().check_invariants();
}

TEST(MemoryPressure, TrimsTheCacheWhenTheDriverRefuses) {
  MemoryRig rig;  // 64 MiB, with a larger cache budget.
  rig.free(rig.alloc(15'000, gpu(0), 100));
  const auto allocation = rig.alloc(15'000, gpu(0), 128);
  rig.expect_shown(*allocation);
  rig.memory().check_invariants();
}

TEST(MemoryPressure, SaysWhoHoldsWhat) {
  MemoryRig rig("test-2", capped(8));
  const auto held = rig.alloc(5, gpu(0), 5);
  const Error error = expect_error(ErrorKind::out_of_memory, [&] { rig.alloc(4, gpu(0), 4); });
  EXPECT_TRUE(says(error, bytes_text(4 * page_bytes) + " at gpu(0)")) << error.what();
  EXPECT_TRUE(says(error, "capacity is " + bytes_text(10 * page_bytes))) << error.what();
  EXPECT_TRUE(says(error, "allocations use " + bytes_text(5 * page_bytes))) << error.what();
  EXPECT_TRUE(says(error, "the runtime " + bytes_text(2 * page_bytes))) << error.what();
  rig.memory().check_invariants();
  const auto fits = rig.alloc(3, gpu(0), 3);
  rig.expect_shown(*fits);
}

TEST(MemoryPressure, ARefusedAllocationHoldsNothing) {
  MemoryRig rig("test-2", capped(8));
  expect_error(ErrorKind::out_of_memory, [&] { rig.alloc(9, gpu(0), 1); });
  EXPECT_EQ(rig.account(gpu(0)).allocated_bytes, 0u);
  rig.memory().check_invariants();
  const auto all = rig.alloc(8, gpu(0), 1);
  rig.expect_shown(*all);
}

TEST(MemoryPressure, RefusesAtOnceWhatNoMachineHas) {
  MemoryRig rig;
  rig.forget_calls();
  const Error error = expect_error(ErrorKind::out_of_memory,
                                   [&] { rig.memory().alloc(std::uint64_t{1} << 38, gpu(0), {}); });
  EXPECT_TRUE(says(error, "capacity is " + bytes_text(64 * MiB))) << error.what();
  // The size of a host node is unknown, but this many chunks exceed any limit.
  expect_error(ErrorKind::invalid_argument,
               [&] { rig.memory().alloc(std::uint64_t{1} << 45, host(0), {}); });
  EXPECT_TRUE(rig.trace().empty()) << "and asks the driver for nothing";
  rig.memory().check_invariants();
}

TEST(MemoryPressure, GivesUpThePageTablesReserveForAGrant) {
  MemoryRig rig;
  rig.fail({Call::grant}, {0});
  const auto allocation = rig.alloc(1, gpu(0));
  EXPECT_EQ(rig.driver().fired(), 1);
  EXPECT_EQ(rig.account(gpu(0)).own_bytes, page_bytes) << "the spares went";
  rig.expect_shown(*allocation);
  rig.fail({Call::grant}, {0});
  // There are no spares left.
  expect_error(ErrorKind::out_of_memory, [&] { rig.alloc(2, gpu(0)); });
  rig.fail_nothing();
  rig.memory().check_invariants();
}

TEST(MemoryPressure, KeepsWithinTheCacheBudget) {
  MemoryLimits limits;
  limits.cache_bytes_per_gpu = 6 * page_bytes;
  MemoryRig rig("test-2", limits);
  std::vector<std::shared_ptr<Allocation>> allocations;
  for (int i = 0; i < 8; ++i) allocations.push_back(rig.alloc(2, gpu(0)));
  for (const auto& allocation : allocations) rig.free(allocation);
  rig.memory().chunks().slow_calls().await_empty();
  EXPECT_EQ(rig.cached(gpu(0)), limits.cache_bytes_per_gpu);
  EXPECT_EQ(rig.account(gpu(0)).allocated_bytes, 0u);
  rig.memory().check_invariants();
}

TEST(Reserve, HasChunksReadySoThatAnAllocationMakesNone) {
  MemoryLimits limits;
  limits.cache_bytes_per_gpu = page_bytes;  // Reserved memory counts against no budget.
  MemoryRig rig("test-2", limits);
  rig.memory().chunks().reserve(gpu(0), 9 * page_bytes, 4 * page_bytes);
  rig.memory().chunks().slow_calls().await_empty();
  EXPECT_EQ(rig.memory().chunks().cache().count(gpu(0), 4 * page_bytes), 3u);
  rig.forget_calls();
  const auto allocation = rig.alloc(12, gpu(0), 4);
  EXPECT_EQ(rig.calls(Call::create), 0);
  rig.memory().chunks().reserve(gpu(0), 4 * page_bytes, 4 * page_bytes);
  rig.memory().chunks().reserve(gpu(0), 4 * page_bytes, 4 * page_bytes);
  EXPECT_EQ(rig.calls(Call::create), 1) << "what lies ready is not made again";
  rig.memory().check_invariants();
}

TEST(Reserve, TakesTheLargestChunksUnlessAsked) {
  MemoryRig rig;
  rig.memory().chunks().reserve(gpu(1), 1, 0);
  EXPECT_EQ(rig.memory().chunks().cache().count(gpu(1), largest_chunk_bytes(gpu(1), page_bytes)),
            1u);
  rig.memory().chunks().reserve(host(0), 1, 0);
  EXPECT_EQ(rig.memory().chunks().cache().count(host(0), largest_chunk_bytes(host(0), page_bytes)),
            1u);
}

TEST(Reserve, RefusesWhatIsNotThereOrDoesNotFit) {
  MemoryRig rig("test-2", capped(8));
  expect_error(ErrorKind::invalid_argument,
               [&] { rig.memory().chunks().reserve(gpu(2), page_bytes, page_bytes); });
  expect_error(ErrorKind::invalid_argument,
               [&] { rig.memory().chunks().reserve(gpu(0), page_bytes, 129 * page_bytes); });
  expect_error(ErrorKind::out_of_memory,
               [&] { rig.memory().chunks().reserve(gpu(0), 9 * page_bytes, page_bytes); });
  rig.memory().check_invariants();
}

TEST(Reserve, MakesRoomFromCachedMemoryOfOtherSizes) {
  MemoryRig rig("test-2", capped(8));
  rig.free(rig.alloc(4, gpu(0), 2));
  rig.memory().chunks().retire(
      rig.memory().chunks().obtain(gpu(0), page_bytes, ChunkStore::Turn::take));
  rig.memory().chunks().reserve(gpu(0), 8 * page_bytes, 4 * page_bytes);
  EXPECT_EQ(rig.memory().chunks().cache().count(gpu(0), 4 * page_bytes), 2u);
  EXPECT_EQ(rig.cached(gpu(0)), 8 * page_bytes);
  rig.memory().check_invariants();
}

TEST(Reserve, RaisesTheBudgetNoFurtherWhenItIsAskedAgain) {
  MemoryLimits limits;
  limits.cache_bytes_per_gpu = page_bytes;
  MemoryRig rig("test-2", limits);
  for (int round = 0; round < 5; ++round) {
    rig.memory().chunks().reserve(gpu(0), 8 * page_bytes, 4 * page_bytes);
    EXPECT_EQ(rig.memory().chunks().cache().budget_bytes(gpu(0)), 9 * page_bytes);
    rig.alloc(8, gpu(0), 4);  // Uses the reserve.
  }
  rig.memory().chunks().trim(gpu(0));
  EXPECT_EQ(rig.memory().chunks().cache().budget_bytes(gpu(0)), page_bytes);
}

TEST(Trim, GivesTheCacheBackAndSaysHowMuch) {
  MemoryRig rig;
  rig.free(rig.alloc(5, gpu(0), 2));
  rig.memory().chunks().reserve(gpu(0), 4 * page_bytes, 4 * page_bytes);
  const std::uint64_t created = rig.machine().created_bytes();
  EXPECT_EQ(rig.memory().chunks().trim(gpu(0)), 9 * page_bytes);
  EXPECT_EQ(rig.machine().created_bytes(), created - 9 * page_bytes);
  EXPECT_EQ(rig.memory().chunks().trim(gpu(0)), 0u);
  EXPECT_EQ(rig.memory().chunks().trim(gpu(1)), 0u);
  expect_error(ErrorKind::invalid_argument, [&] { rig.memory().chunks().trim(host(7)); });
  rig.memory().check_invariants();
}

TEST(Trim, GivesBackWhatWasAboutToBeMadeAheadToo) {
  MemoryRig rig;
  std::shared_ptr<Allocation> allocation;
  rig.memory().chunks().reserve(host(0), page_bytes, page_bytes);
  {
    const MutexLock turn(
        rig.memory().chunks().slow_calls().turn());  // Keeps the slow-call queue idle.
    // From the cache, so the reserve must be refilled.
    allocation = rig.alloc(1, host(0), 1);
  }
  rig.memory().chunks().trim(host(0));
  rig.memory().chunks().slow_calls().await_empty();
  EXPECT_EQ(rig.cached(host(0)), 0u);
}

}  // namespace
}  // namespace vma
