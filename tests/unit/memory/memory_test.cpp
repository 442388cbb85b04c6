// Goal: an allocation succeeds completely or changes nothing, reuses cached memory without a driver
// call, and the books match what is held. Method: TraceDriver counts calls, FaultDriver fails them.
#include "unit/memory/memory_rig.hpp"

#include <fmt/format.h>

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace vma {
namespace {

TEST(Memory, ShowsNewMemoryToAllWhoCanReachIt) {
  MemoryRig rig("test-islands");
  for (const Place at : rig.topology().places()) {
    for (const std::uint64_t pages : {1, 2, 5, 130, 300}) {
      const auto allocation = rig.alloc(pages, at);
      EXPECT_GE(allocation->size_bytes(), pages * rig.page());
      rig.expect_shown(*allocation);
      EXPECT_EQ(rig.memory().require(to_pointer(allocation->begin()), "test"), allocation);
    }
  }
  rig.memory().chunks().slow_calls().await_empty();
  rig.memory().check_invariants();
}

TEST(Memory, BringsFreedMemoryBackWithoutADriverCall) {
  MemoryRig rig;
  const auto first = rig.alloc(10, gpu(0), 4);
  const Address begin = first->begin();
  rig.free(first);
  EXPECT_EQ(rig.cached(gpu(0)), 10 * rig.page());
  rig.forget_calls();
  const auto second = rig.alloc(10, gpu(0), 4);
  EXPECT_EQ(rig.trace().size(), 0u) << "nothing is asked of the driver";
  EXPECT_EQ(second->begin(), begin);
  EXPECT_EQ(rig.cached(gpu(0)), 0u);
  EXPECT_FALSE(second->being_freed);
  rig.expect_shown(*second);
  rig.memory().check_invariants();
}

TEST(Memory, UsesFreedChunksForOtherGeometriesToo) {
  MemoryRig rig;
  rig.free(rig.alloc(8, gpu(0), 4));
  rig.forget_calls();
  const auto three = rig.alloc(12, gpu(0), 4);  // Two of its chunks are in the cache.
  EXPECT_EQ(rig.calls(Call::create), 1);
  rig.expect_shown(*three);
  rig.memory().check_invariants();
}

TEST(Memory, GivesADismissedChunkToTheDriverAtOnce) {
  MemoryRig rig;
  Chunk chunk = rig.chunk(gpu(0), 2);
  rig.forget_calls();
  rig.memory().chunks().dismiss(std::move(chunk));
  EXPECT_EQ(rig.calls(Call::release), 1);
  EXPECT_EQ(rig.cached(gpu(0)), 0u);
  EXPECT_EQ(rig.account(gpu(0)).allocated_bytes, 0u);
}

TEST(Memory, FreeForgetsThePointerAndWaitsForTheWorkBefore) {
  MemoryRig rig;
  constexpr std::chrono::milliseconds long_time(50);
  const auto allocation = rig.alloc(1, gpu(0));
  rig.launch_spin(rig.new_stream(1), long_time);
  const TimePoint start = rig.machine().clock().now();
  rig.free(allocation);
  EXPECT_GE(rig.machine().clock().now() - start, long_time);
  const void* pointer = to_pointer(allocation->begin());
  expect_error(ErrorKind::unknown_pointer, [&] { rig.memory().require_around(pointer, "test"); });
  expect_error(ErrorKind::unknown_pointer, [&] { rig.memory().free(allocation->begin()); });
}

TEST(Memory, AFreeHoldsNobodyUpWhileItWaitsForWork) {
  MemoryRig rig;
  const auto allocation = rig.alloc(1, gpu(0));
  std::uint64_t* word = rig.stop(rig.new_stream(1));
  rig.forget_calls();
  std::thread freer([&] { rig.free(allocation); });
  EXPECT_TRUE(comes_true([&] { return rig.calls(Call::synchronize_context) >= 1; }));
  EXPECT_TRUE(allocation->being_freed);
  EXPECT_TRUE(comes_true([&] { return allocation->operations().is_free(); }));
  EXPECT_EQ(rig.memory().require_around(to_pointer(allocation->begin()), "test"), allocation);
  rig.let_go(word);
  freer.join();
}

TEST(Memory, FreesNothingWhenTheWorkCannotBeWaitedFor) {
  MemoryRig rig;
  const auto allocation = rig.alloc(1, gpu(0));
  rig.fail({Call::synchronize_context}, {0});
  expect_error(ErrorKind::driver_failure, [&] { rig.free(allocation); });
  EXPECT_EQ(rig.memory().require(to_pointer(allocation->begin()), "test"), allocation);
  EXPECT_FALSE(allocation->being_freed);
  rig.free(allocation);  // It can be freed later.
}

TEST(Memory, FreesAsynchronouslyOnceTheStreamIsThere) {
  MemoryRig rig;
  const auto allocation = rig.alloc(4, gpu(0), 4);
  const BoundStream stream = rig.new_stream(0);
  std::uint64_t* word = rig.stop(stream);
  rig.memory().free_async(allocation->begin(), stream);
  expect_error(ErrorKind::unknown_pointer,
               [&] { rig.memory().require_around(to_pointer(allocation->begin()), "test"); });
  {
    const MutexLock turn(rig.memory().chunks().slow_calls().turn());
    rig.memory().chunks().slow_calls().run_here();  // Processes what is waiting.
  }
  EXPECT_EQ(rig.cached(gpu(0)), 0u) << "the stream has not come so far";
  EXPECT_EQ(rig.machine().pointer_info(allocation->begin()).at, gpu(0));
  MemoryRig::let_go(word);
  EXPECT_TRUE(comes_true([&] { return rig.cached(gpu(0)) == 4 * rig.page(); }));
  EXPECT_EQ(rig.alloc(4, gpu(0), 4)->begin(), allocation->begin());
}

TEST(Memory, FreesOnceTheWorkOfAllMarksHasEnded) {
  MemoryRig rig;
  const auto allocation = rig.alloc(4, gpu(0), 4);
  const BoundStream first = rig.new_stream(0), second = rig.new_stream(1);
  std::uint64_t* word = rig.stop(second);
  std::vector<WorkMark> marks{rig.memory().mark(first, "test"), rig.memory().mark(second, "test")};
  {
    ++allocation->pins;
    expect_error(ErrorKind::pinned, [&] { rig.memory().free_after(allocation->begin(), marks); });
    EXPECT_EQ(marks.size(), 2u) << "they are the caller's still";
    --allocation->pins;
  }
  rig.memory().free_after(allocation->begin(), marks);
  EXPECT_TRUE(marks.empty());
  rig.machine().wait_stream(first, never);
  {
    const MutexLock turn(rig.memory().chunks().slow_calls().turn());
    rig.memory().chunks().slow_calls().run_here();
  }
  EXPECT_EQ(rig.cached(gpu(0)), 0u) << "one of the streams has not come so far";
  MemoryRig::let_go(word);
  EXPECT_TRUE(comes_true([&] { return rig.cached(gpu(0)) == 4 * rig.page(); }));
}

TEST(Memory, RefusesToFreeOnAStreamThatCaptures) {
  MemoryRig rig;
  const auto allocation = rig.alloc(1, gpu(0));
  const BoundStream stream = rig.new_stream(0);
  rig.machine().begin_capture(stream, CaptureMode::relaxed);
  expect_error(ErrorKind::invalid_argument,
               [&] { rig.memory().free_async(allocation->begin(), stream); });
  rig.machine().destroy_graph(rig.machine().end_capture(stream));
  EXPECT_EQ(rig.memory().registry().hold(allocation->begin()), allocation);
  rig.memory().free_async(allocation->begin(), stream);
}

TEST(Memory, LeavesNothingWhereACallOfAnAllocationFails) {
  MemoryRig rig;
  rig.memory().chunks().trim(gpu(0));
  const std::vector<std::string> before = rig.machine().leaks();
  for (int number = 0; number < 100; ++number) {
    SCOPED_TRACE(number);
    rig.fail({}, {number});
    bool failed = false;
    std::shared_ptr<Allocation> allocation;
    try {
      allocation = rig.alloc(5, gpu(0), 2);
    } catch (const Error&) {
      failed = true;
    }
    const bool fired = rig.driver().fired() > 0;
    rig.fail_nothing();
    rig.memory().chunks().slow_calls().await_empty();
    rig.memory().check_invariants();
    if (!failed) {
      rig.expect_shown(*allocation);
      rig.free(allocation);
    }
    rig.memory().chunks().trim(gpu(0));
    EXPECT_EQ(rig.memory().registry().size(), 0u);
    if (!fired) {
      // No call is for a mapping that only a move needs. Queries are of both GPUs at both ends.
      const int queries = access_is_verified ? 4 : 0;
      EXPECT_EQ(number, 3 + 1 + 3 + 1 + queries)
          << "three chunks, their range, three mappings, one grant";
      break;
    }
  }
  EXPECT_EQ(rig.memory().chunks().ledger().leaks(), 0u);
  // What remains are the keepers without their spares, and events kept for reuse.
  constexpr std::size_t objects_of_spares = 2 * 3;  // A chunk, a reservation and a mapping each.
  std::size_t events = 0;
  for (const std::string& left : rig.machine().leaks()) events += left.starts_with("event");
  EXPECT_EQ(rig.machine().leaks().size() - events, before.size() - objects_of_spares);
}

TEST(Memory, MakesHostChunksAheadOfNeed) {
  MemoryRig rig;
  const auto first = rig.alloc(4, host(0), 4);
  rig.memory().chunks().slow_calls().await_empty();
  EXPECT_EQ(rig.memory().chunks().cache().count(host(0), 4 * rig.page()), 2u);
  rig.forget_calls();
  const auto second = rig.alloc(8, host(0), 4);  // Both chunks are in the cache.
  EXPECT_EQ(second->geometry().slots, 2u);
  rig.expect_shown(*second);
  rig.memory().chunks().slow_calls().await_empty();
  EXPECT_EQ(rig.memory().chunks().cache().count(host(0), 4 * rig.page()), 2u) << "and made again";
  rig.memory().check_invariants();
}

TEST(Memory, MakesNoHostChunksAheadThatAFreedAllocationHas) {
  MemoryRig rig;
  ChunkStore& chunks = rig.memory().chunks();
  const std::uint64_t size = 4 * rig.page();
  rig.free(rig.alloc(16, host(0), 4));
  chunks.slow_calls().await_empty();
  const std::size_t made = chunks.cache().count(host(0), size);
  chunks.make_ahead(host(0), size, made + 4);
  chunks.slow_calls().await_empty();
  EXPECT_EQ(chunks.cache().count(host(0), size), made) << "the freed one has four";
  chunks.make_ahead(host(0), size, made + 5);
  chunks.slow_calls().await_empty();
  EXPECT_EQ(chunks.cache().count(host(0), size), made + 1);
}

TEST(Memory, MakesNoMoreHostChunksAheadThanWereMissingAlthoughSomeAreTaken) {
  MemoryRig rig;
  ChunkStore& chunks = rig.memory().chunks();
  constexpr std::size_t wanted = 3;
  chunks.make_ahead(host(0), rig.page(), wanted);
  std::vector<Chunk> taken;
  while (taken.size() < wanted) {
    ASSERT_TRUE(comes_true([&] {
      Chunk chunk = chunks.obtain_ready(host(0), rig.page());
      if (!chunk) return false;
      taken.push_back(std::move(chunk));
      return true;
    }));
  }
  chunks.slow_calls().await_empty();
  EXPECT_EQ(chunks.cache().count(host(0), rig.page()), 0u);
  for (Chunk& chunk : taken) chunks.retire(std::move(chunk));
}

TEST(Memory, MakesNoHostChunksBeyondTheBudget) {
  MemoryLimits limits;
  limits.host_cache_bytes = 5 * 4096;
  MemoryRig rig("test-2", limits);
  const auto allocation = rig.alloc(4, host(0), 4);
  rig.memory().chunks().slow_calls().await_empty();
  EXPECT_EQ(rig.memory().chunks().cache().count(host(0), 4 * rig.page()), 1u);
  EXPECT_LE(rig.cached(host(0)), limits.host_cache_bytes);
}

TEST(Memory, KeepsAsideWhatMayStillBeTouched) {
  MemoryRig rig;
  Chunk chunk = rig.memory().chunks().obtain(gpu(0), rig.page(), ChunkStore::Turn::take);
  rig.memory().chunks().map_staging(chunk, ChunkStore::Turn::take);
  const Address staging = chunk.staging();
  rig.memory().chunks().quarantine(std::move(chunk), "a test, on purpose");
  EXPECT_EQ(rig.memory().chunks().ledger().leaks(), 1u);
  EXPECT_EQ(rig.cached(gpu(0)), 0u);
  rig.memory().chunks().trim(gpu(0));
  EXPECT_EQ(rig.machine().pointer_info(staging).at, gpu(0)) << "it still stands";
  rig.memory().check_invariants();
  rig.memory().release();
  EXPECT_THROW(rig.machine().pointer_info(staging), Error);
}

TEST(Memory, FindsTheChunkOfTheSizeInAFreedAllocation) {
  MemoryRig rig;
  rig.free(rig.alloc(5, gpu(0), 2));  // Two chunks of two pages and one of one page.
  Chunk tail = rig.memory().chunks().obtain_cached(gpu(0), rig.page());
  ASSERT_TRUE(tail);
  EXPECT_EQ(tail.size_bytes(), rig.page());
  rig.memory().chunks().retire(std::move(tail));
  rig.memory().check_invariants();
}

TEST(Memory, GivesTheAddressesOfWhatItTookApartBackInTurn) {
  MemoryRig rig;
  rig.free(rig.alloc(5, gpu(0), 2));
  ChunkStore& chunks = rig.memory().chunks();
  rig.forget_calls();
  Chunk tail;
  {
    const MutexLock stopped_work(chunks.slow_calls().turn());
    tail = chunks.obtain_cached(gpu(0), rig.page());
    EXPECT_EQ(rig.calls(Call::unreserve), 0) << "a stop of another thread would take longer";
  }
  chunks.slow_calls().await_empty();
  EXPECT_EQ(rig.calls(Call::unreserve), 1);
  chunks.retire(std::move(tail));
}

TEST(Memory, KeepsAsideTheBusyChunkOfWhatIsFreed) {
  MemoryRig rig;
  const auto allocation = rig.alloc(4, gpu(0), 2);
  allocation->chunk(1).mark_busy();
  rig.free(allocation);
  EXPECT_EQ(rig.cached(gpu(0)), 2 * rig.page());
  EXPECT_EQ(rig.account(gpu(0)).leaked_bytes, 2 * rig.page());
  rig.memory().check_invariants();
}

TEST(Memory, HasRoomWhereAnAsynchronousFreeCanEnd) {
  for (std::uint64_t seed = 1; seed < 9; ++seed) {
    step(seed, [](const SimOptions& options) {
      MemoryLimits limits;
      limits.capacity_bytes[gpu(0)] = 16 * page_bytes;
      MemoryRig rig("test-2", limits, options);
      const std::uint64_t room_bytes = rig.memory().chunks().room_bytes(gpu(0));
      const BoundStream stream = rig.new_stream(0);
      rig.memory().free_async(rig.alloc(8, gpu(0), 1)->begin(), stream);
      rig.machine().wait_stream(stream, never);
      EXPECT_NO_THROW(rig.memory().chunks().require_room(gpu(0), room_bytes, "test"));
    });
  }
}

TEST(Memory, TellsInteriorAndForeignPointersApart) {
  MemoryRig rig;
  const auto allocation = rig.alloc(4, gpu(0), 2);
  const auto* pointer = static_cast<const std::byte*>(to_pointer(allocation->begin()));
  EXPECT_EQ(rig.memory().require_around(pointer + 3 * rig.page(), "test"), allocation);
  const Error interior = expect_error(ErrorKind::unknown_pointer,
                                      [&] { rig.memory().require(pointer + 1, "vma::test"); });
  EXPECT_EQ(interior.call(), "vma::test");
  EXPECT_TRUE(says(interior, fmt::format("starts at {:#x}", to_integer(allocation->begin()))));
  const int local = 0;
  const Error foreign =
      expect_error(ErrorKind::unknown_pointer, [&] { rig.memory().require(&local, "vma::test"); });
  EXPECT_TRUE(says(foreign, fmt::format("{}", fmt::ptr(&local))));
}

TEST(Memory, GivesEverythingBackWhenItShutsDown) {
  MemoryRig rig;
  rig.alloc(300, gpu(0));
  rig.alloc(3, host(0));
  rig.free(rig.alloc(7, gpu(1)));
  rig.memory().release();
  rig.memory().release();  // A second call does nothing.
  EXPECT_EQ(rig.account(gpu(0)).allocated_bytes, 0u);
  EXPECT_EQ(rig.account(gpu(1)).cached_bytes, 0u);
}

}  // namespace
}  // namespace vma
