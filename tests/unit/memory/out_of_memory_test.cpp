// Goal: releasing memory never ends the process when host memory runs out: what cannot be tracked
// is kept aside or stays in the cache, and the books stay correct. Method: replaces operator new.
#include "support/failing_memory.hpp"
#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <utility>
#include <vector>

namespace vma {
namespace {

thread_local bool refuses = false;  // Whether allocations on this thread fail.

/// While it lives, allocations on this thread fail.
class NoMemory {
 public:
  NoMemory() {
    allocation_fails = [] { return refuses; };
    refuses = true;
  }
  ~NoMemory() { refuses = false; }
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;
};

TEST(AllocationFailure, LeavesAChunkWithItsOwner) {
  MemoryRig rig;
  Chunk chunk = rig.memory().chunks().obtain(gpu(0), 3 * rig.page(), ChunkStore::Turn::take);
  bool kept = true, refused = false;
  {
    const NoMemory none;
    try {
      ::operator delete(::operator new(8));
    } catch (const std::bad_alloc&) {
      refused = true;
    }
    kept = rig.memory().chunks().cache().put(std::move(chunk));
  }
  EXPECT_TRUE(refused) << "the test can tell";
  EXPECT_FALSE(kept);
  ASSERT_TRUE(chunk);  // NOLINT: it was not taken.
  EXPECT_EQ(rig.cached(gpu(0)), 0u);
  EXPECT_FALSE(rig.memory().chunks().cache().take(gpu(0), 3 * rig.page()));
  EXPECT_TRUE(rig.memory().chunks().cache().put(std::move(chunk)));
  rig.memory().check_invariants();
}

TEST(AllocationFailure, CountsARetiredChunkThatNobodyCanKeepTrackOf) {
  MemoryRig rig;
  Chunk chunk = rig.memory().chunks().obtain(gpu(0), rig.page(), ChunkStore::Turn::take);
  {
    const NoMemory none;
    rig.memory().chunks().retire(std::move(chunk));
  }
  EXPECT_EQ(rig.memory().chunks().ledger().leaks(), 1u);
  EXPECT_EQ(rig.account(gpu(0)).leaked_bytes, rig.page());
  EXPECT_EQ(rig.account(gpu(0)).allocated_bytes, 0u);
  rig.memory().check_invariants();
}

TEST(AllocationFailure, KeepsForNowWhatIsOverTheBudget) {
  MemoryLimits limits;
  limits.cache_bytes_per_gpu = 0;
  MemoryRig rig("test-2", limits);
  const std::uint64_t page = rig.page();
  std::vector<Chunk> chunks;
  {
    // Keeps the slow-call queue from releasing anything.
    const MutexLock turn(rig.memory().chunks().slow_calls().turn());
    for (int i = 0; i < 200; ++i) {
      chunks.push_back(rig.memory().chunks().obtain(gpu(0), page, ChunkStore::Turn::held));
    }
    for (int i = 0; i < 100; ++i) rig.memory().chunks().retire(std::move(chunks[i]));
    {
      const NoMemory none;
      EXPECT_TRUE(rig.memory().chunks().cache().take_all(gpu(0)).empty()) << "it could not be told";
      for (int i = 100; i < 200; ++i) rig.memory().chunks().retire(std::move(chunks[i]));
    }
  }
  rig.memory().chunks().slow_calls().await_empty();
  EXPECT_EQ(rig.account(gpu(0)).allocated_bytes, 0u);
  rig.memory().check_invariants();
  rig.memory().chunks().retire(rig.memory().chunks().obtain(gpu(0), page, ChunkStore::Turn::take));
  rig.memory().chunks().slow_calls().await_empty();
  EXPECT_EQ(rig.cached(gpu(0)), 0u) << "the next one takes them along";
}

TEST(AllocationFailure, MovesWhatHasBecomeReadyWithoutAny) {
  MemoryRig rig;
  SlowCallQueue& slow_calls = rig.memory().chunks().slow_calls();
  const MutexLock turn(slow_calls.turn());  // Keeps the slow-call queue's thread from running jobs.
  int done = 0;
  std::atomic<bool> ready{false};
  for (int i = 0; i < 100; ++i) {
    slow_calls.post_when([&] { return ready.load(); }, [&] { ++done; });
  }
  {
    const NoMemory none;
    slow_calls.run_here();
    EXPECT_EQ(done, 0);
  }
  ready = true;
  {
    const NoMemory none;
    slow_calls.run_here();
  }
  EXPECT_EQ(done, 100);
}

TEST(AllocationFailure, ErasesFromTheRegistryWithoutAny) {
  Registry registry(4096);
  std::vector<AllocationId> ids;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    ids.push_back(registry.insert(Address{(i + 1) << 20}, 4096, 4096, nullptr));
  }
  {
    const NoMemory none;
    for (const AllocationId id : ids) registry.erase(id);
  }
  EXPECT_EQ(registry.size(), 0u);
  registry.check_invariants();
}

}  // namespace
}  // namespace vma
