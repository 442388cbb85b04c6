// Goal: which memory that was freed on one stream another one gets, under each reuse policy, and
// that none gets it early. Method: the freeing stream is stopped, or has ended, or its end is
// known; the pool may hold one block only, so a second allocation shows what can be reused.
#include "unit/pools/pool_rig.hpp"

#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace vma {
namespace {

constexpr std::size_t block_bytes = 1 << 20;

/// A pool with room for one block, which was freed on `from`.
class OneBlock {
 public:
  explicit OneBlock(ReusePolicies reuse) : from(rig.new_stream()), to(rig.new_stream()) {
    PoolOptions options;
    options.max_bytes = block_bytes;
    options.reuse = reuse;
    pool = rig.runtime().make_pool(gpu(0), options);
    block = pool.allocate(block_bytes, from);
    rig.stop(from);
  }

  void free_it() { pool.deallocate(block, from); }
  /// Whether `to` gets the block.
  bool reused() {
    try {
      void* again = pool.allocate(block_bytes, to);
      EXPECT_EQ(again, block);
      pool.deallocate(again, to);
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(to_string(error.kind()), to_string(ErrorKind::out_of_memory));
      return false;
    }
  }

  PoolRig rig;
  const Stream from, to;
  Pool pool;
  void* block = nullptr;
};

/// A pool without reuse policies, with room for some blocks in one segment. The stream has freed
/// all of it, and that is complete.
Pool pool_that_is_free(PoolRig& rig, std::size_t blocks, Stream from) {
  PoolOptions options;
  options.max_bytes = blocks * block_bytes;
  options.release_threshold = SIZE_MAX;
  options.reuse = {false, false, false};
  Pool pool = rig.runtime().make_pool(gpu(0), options);
  pool.deallocate(pool.allocate(options.max_bytes, from), from);
  rig.runtime().synchronize(from);
  return pool;
}

TEST(Reuse, WithoutPoliciesOnlyWhatAWaitHasShownToBeComplete) {
  OneBlock one({false, false, false});
  one.free_it();
  EXPECT_FALSE(one.reused());
  one.rig.let_go(one.from);
  EXPECT_FALSE(one.reused()) << "complete, but nobody waited";
  one.rig.runtime().synchronize(one.from);
  EXPECT_TRUE(one.reused());
}

TEST(Reuse, OpportunisticallyWhenTheFreeIsComplete) {
  OneBlock one({false, true, false});
  one.free_it();
  EXPECT_FALSE(one.reused());
  one.rig.let_go(one.from);
  EXPECT_TRUE(one.reused());
}

TEST(Reuse, AfterAnEventThatThePoolKnowsOf) {
  OneBlock one({true, false, false});
  one.pool.order(one.to, one.from);
  one.free_it();
  EXPECT_FALSE(one.reused()) << "freed after the event";
  one.pool.order(one.to, one.from);
  EXPECT_TRUE(one.reused());
  one.rig.let_go(one.from);
}

TEST(Reuse, DependenciesAreTransitive) {
  OneBlock one({true, false, false});
  const Stream between = one.rig.new_stream();
  one.free_it();
  one.pool.order(between, one.from);
  EXPECT_FALSE(one.reused());
  one.pool.order(one.to, between);
  EXPECT_TRUE(one.reused());
  one.rig.let_go(one.from);
}

TEST(Reuse, AnOlderOrderDoesNotHideANewerOne) {
  OneBlock one({true, false, false});
  const Stream between = one.rig.new_stream();
  one.pool.order(between, one.from);
  one.free_it();
  one.pool.order(one.to, one.from);
  one.pool.order(one.to, between);  // Knows less about the first stream.
  EXPECT_TRUE(one.reused());
  one.rig.let_go(one.from);
}

TEST(Reuse, DependenciesDoNotCountIfThePolicyIsOff) {
  OneBlock one({false, false, false});
  one.free_it();
  one.pool.order(one.to, one.from);
  EXPECT_FALSE(one.reused());
  one.pool.set_reuse({true, false, false});
  EXPECT_TRUE(one.reused());
  one.rig.let_go(one.from);
}

TEST(Reuse, WithInternalDependenciesTheStreamWaits) {
  OneBlock one({false, false, true});
  one.free_it();
  EXPECT_TRUE(one.reused());
  EXPECT_FALSE(one.rig.driver().query_stream({{}, handle_of(one.to)})) << "it waits for the free";
  one.rig.let_go(one.from);
  one.rig.finish(one.to);
}

TEST(Reuse, AWaitCoversAllFreesBeforeIt) {
  PoolRig rig;
  const Stream from = rig.new_stream(), to = rig.new_stream();
  PoolOptions options;
  options.max_bytes = 2 * block_bytes;
  options.reuse = {false, false, true};
  const Pool pool = rig.runtime().make_pool(gpu(0), options);
  const std::vector<void*> blocks = {pool.allocate(block_bytes, from),
                                     pool.allocate(block_bytes, from)};
  rig.stop(from);
  for (void* block : blocks) pool.deallocate(block, from);
  pool.allocate(block_bytes, to);
  pool.set_reuse({true, false, false});
  pool.allocate(block_bytes, to);  // Throws unless it is known that the stream has waited.
  rig.let_go(from);
}

// Nobody may mark the frees of a foreign stream, so a wait reaches the newest mark only.
TEST(Reuse, AWaitDoesNotCoverFreesAfterTheNewestMark) {
  PoolRig rig;
  const Stream from = PoolRig::as_stream(rig.foreign_stream()), to = rig.new_stream();
  PoolOptions options;
  options.max_bytes = 4 * block_bytes;
  options.reuse = {false, false, true};
  const Pool pool = rig.runtime().make_pool(gpu(0), options);
  pool.deallocate(pool.allocate(4 * block_bytes, from), from);
  void* const first = pool.allocate(block_bytes, from);
  void* const second = pool.allocate(block_bytes, from);
  void* const large = pool.allocate(2 * block_bytes, from);
  rig.stop(from);
  const auto is_refused = [&](std::size_t bytes) {
    return kind_of_error([&] { pool.allocate(bytes, to); }) == ErrorKind::out_of_memory;
  };
  pool.deallocate(first, from);
  EXPECT_TRUE(is_refused(block_bytes)) << "no mark yet, but one is wanted";
  pool.deallocate(second, from);  // Marks both.
  pool.deallocate(large, from);
  EXPECT_TRUE(is_refused(2 * block_bytes)) << "freed after the mark";
  void* const again = pool.allocate(block_bytes, to);
  EXPECT_TRUE(again == first || again == second);
  rig.let_go(from);
}

TEST(Reuse, TheRestOfAPendingFreeStaysPending) {
  PoolRig rig;
  const Stream from = rig.new_stream(), to = rig.new_stream();
  const Pool pool = pool_that_is_free(rig, 4, from);
  void* const whole = pool.allocate(4 * block_bytes, from);
  rig.stop(from);
  pool.deallocate(whole, from);
  pool.allocate(block_bytes, from);  // A part of it.
  EXPECT_EQ(kind_of_error([&] { pool.allocate(3 * block_bytes, to); }), ErrorKind::out_of_memory);
  rig.let_go(from);
  rig.runtime().synchronize(from);
  EXPECT_NO_THROW(pool.allocate(3 * block_bytes, to));
}

TEST(Reuse, AStreamTakesItsOwnPendingFreeAndLeavesWhatAllMayHave) {
  PoolRig rig;
  const Stream from = rig.new_stream(), to = rig.new_stream();
  const Pool pool = pool_that_is_free(rig, 4, from);
  void* const own = pool.allocate(3 * block_bytes / 2, from);
  pool.allocate(3 * block_bytes / 2, to);  // One block is left, which is complete.
  rig.stop(from);
  pool.deallocate(own, from);
  EXPECT_EQ(pool.allocate(block_bytes, from), own);
  EXPECT_NO_THROW(pool.allocate(block_bytes, to));
  rig.let_go(from);
}

TEST(Reuse, WhatIsCompleteStaysForAllThoughAStreamFreesBesideIt) {
  PoolRig rig;
  const Stream from = rig.new_stream(), to = rig.new_stream();
  const Pool pool = pool_that_is_free(rig, 12, from);
  void* const pending = pool.allocate(block_bytes, from);
  rig.stop(from);
  pool.deallocate(pending, from);
  void* const own = pool.allocate(2 * block_bytes, from);
  void* const rest = pool.allocate(9 * block_bytes, to);  // Throws if it is the first stream's.
  pool.deallocate(own, from);
  pool.deallocate(rest, to);
  rig.let_go(from);
}

TEST(Reuse, AFreeThatIsOrderedStaysSoThoughItsNeighbourIsFreed) {
  PoolRig rig;
  const Stream from = rig.new_stream(), to = rig.new_stream();
  PoolOptions options;
  options.max_bytes = 4 * block_bytes;
  options.reuse = {true, false, false};
  const Pool pool = rig.runtime().make_pool(gpu(0), options);
  pool.deallocate(pool.allocate(4 * block_bytes, from), from);  // They lie side by side.
  std::vector<void*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(pool.allocate(block_bytes, from));
  std::ranges::sort(blocks);
  rig.stop(from);
  pool.deallocate(blocks[1], from);
  pool.order(to, from);
  pool.deallocate(blocks[2], from);
  pool.allocate(block_bytes / 2, from);  // Joins what it may.
  auto* const ordered = static_cast<std::byte*>(blocks[1]);
  void* const part = pool.allocate(block_bytes / 2, to);  // Throws if it has become later.
  EXPECT_TRUE(ordered <= part && part < ordered + block_bytes);
  rig.let_go(from);
}

// The stream has joined them for a request of its own, which they do not serve.
TEST(Reuse, JoinedFreesAreOrderedOnlyOnceTheLastOfThemIs) {
  for (const bool later_is_behind : {true, false}) {
    SCOPED_TRACE(later_is_behind);
    PoolRig rig;
    const Stream from = rig.new_stream(), to = rig.new_stream();
    PoolOptions options;
    options.max_bytes = 4 * block_bytes;
    options.reuse = {true, false, false};
    const Pool pool = rig.runtime().make_pool(gpu(0), options);
    pool.deallocate(pool.allocate(4 * block_bytes, from), from);  // They lie side by side.
    std::vector<void*> blocks;
    for (int i = 0; i < 4; ++i) blocks.push_back(pool.allocate(block_bytes, from));
    std::ranges::sort(blocks);
    rig.stop(from);
    pool.deallocate(blocks[later_is_behind ? 1 : 2], from);
    pool.order(to, from);
    pool.deallocate(blocks[later_is_behind ? 2 : 1], from);  // `to` does not come after this one.
    EXPECT_EQ(kind_of_error([&] { pool.allocate(3 * block_bytes, from); }),
              ErrorKind::out_of_memory);
    EXPECT_EQ(kind_of_error([&] { pool.allocate(2 * block_bytes, to); }), ErrorKind::out_of_memory);
    pool.order(to, from);
    EXPECT_EQ(pool.allocate(2 * block_bytes, to), blocks[1]);
    rig.let_go(from);
  }
}

TEST(Reuse, OtherFreesOfAStreamDoNotDelayTheFirst) {
  PoolRig rig;
  const Stream from = rig.new_stream(), to = rig.new_stream();
  PoolOptions options;
  options.max_bytes = 2 * block_bytes;
  options.reuse.internal_dependencies = false;
  const Pool pool = rig.runtime().make_pool(gpu(0), options);
  void* first = pool.allocate(block_bytes, from);
  void* second = pool.allocate(block_bytes, from);
  pool.deallocate(first, from);
  void* again = pool.allocate(block_bytes, to);  // Marks the free of the first one.
  EXPECT_EQ(again, first);
  pool.deallocate(again, to);
  rig.stop(from);
  pool.deallocate(second, from);
  EXPECT_EQ(pool.allocate(block_bytes, to), first);
  EXPECT_EQ(kind_of_error([&] { pool.allocate(block_bytes, to); }), ErrorKind::out_of_memory);
  rig.let_go(from);
  pool.deallocate(first, to);
}

// The runtime does not know when a stream of the program ends, so it asks for its frees only in
// calls that name it.
TEST(Reuse, AForeignStreamIsAskedInItsOwnCallsOnly) {
  PoolRig rig;
  const BoundStream foreign = rig.foreign_stream();
  const Stream from = PoolRig::as_stream(foreign), to = rig.new_stream();
  PoolOptions options;
  options.max_bytes = block_bytes;
  const Pool pool = rig.runtime().make_pool(gpu(0), options);
  void* half = pool.allocate(block_bytes / 2, from);
  void* other = pool.allocate(block_bytes / 2, from);
  pool.deallocate(half, from);
  EXPECT_EQ(kind_of_error([&] { pool.allocate(block_bytes / 2, to); }), ErrorKind::out_of_memory);
  pool.deallocate(other, from);  // Names the stream: the frees until here are marked.
  void* again = pool.allocate(block_bytes / 2, to);
  EXPECT_TRUE(again == half || again == other);
  pool.deallocate(again, to);
}

TEST(Reuse, FreesOfADestroyedStreamComeBackWithTheNextWait) {
  PoolRig rig;
  const Stream to = rig.new_stream();
  PoolOptions options;
  options.max_bytes = block_bytes;
  const Pool pool = rig.runtime().make_pool(gpu(0), options);
  const ContextHandle context = rig.foreign_stream().context;
  const BoundStream gone = rig.machine().create_stream(context, StreamKind::non_blocking);
  void* block = pool.allocate(block_bytes, PoolRig::as_stream(gone));
  pool.deallocate(block, PoolRig::as_stream(gone));
  rig.machine().destroy_stream(gone);
  EXPECT_EQ(kind_of_error([&] { pool.allocate(block_bytes, to); }), ErrorKind::out_of_memory);
  pool.synchronize();
  EXPECT_EQ(pool.allocate(block_bytes, to), block);
  pool.deallocate(block, to);
}

/// Contexts that are current in another thread, or in none, are not waited for.
TEST(Reuse, AWaitCompletesNoFreesInOtherContexts) {
  PoolRig rig;
  SimDriver& machine = rig.machine();
  const Stream to = rig.new_stream();
  PoolOptions options;
  options.max_bytes = block_bytes;
  const Pool pool = rig.runtime().make_pool(gpu(0), options);
  const ContextHandle own = machine.create_context(DeviceId{0});
  const BoundStream bound = machine.create_stream(own, StreamKind::non_blocking);
  const Stream from = PoolRig::as_stream(bound);
  auto* const word =
      static_cast<std::uint64_t*>(machine.allocate_pinned(own, sizeof(std::uint64_t)));
  const WordOperation wait{WordOperation::Kind::wait_until_at_least, address_of(word), 1};
  void* block = pool.allocate(block_bytes, from);
  machine.batch(bound, {&wait, 1});
  pool.deallocate(block, from);
  const auto is_refused = [&] {
    return kind_of_error([&] { pool.allocate(block_bytes, to); }) == ErrorKind::out_of_memory;
  };
  rig.runtime().free(rig.alloc(8192, gpu(0)));
  EXPECT_TRUE(is_refused());
  pool.synchronize();
  EXPECT_TRUE(is_refused());
  MemoryRig::let_go(word);
  machine.set_current_context(own);
  pool.synchronize();
  machine.set_current_context({});
  EXPECT_EQ(pool.allocate(block_bytes, to), block);
  pool.deallocate(block, to);
  machine.free_pinned(own, word);
  machine.destroy_stream(bound);
  machine.destroy_context(own);
}

TEST(Reuse, AStreamOfTheRuntimeMayBeDestroyedWhileItsWorkRuns) {
  OneBlock one({true, true, false});
  one.free_it();
  one.rig.end(one.from);
  EXPECT_FALSE(one.reused());
  one.rig.let_go(one.from);
  EXPECT_TRUE(comes_true([&] { return one.reused(); }));
}

TEST(Reuse, AStreamThatCouldNotBeDestroyedKeepsItsFrees) {
  PoolRig rig;
  const Stream from = PoolRig::as_stream(rig.foreign_stream()), to = rig.new_stream();
  const Pool pool = rig.runtime().make_pool(gpu(0));
  pool.deallocate(pool.allocate(block_bytes, from), from);
  void* block = pool.allocate(block_bytes, from);
  EXPECT_EQ(kind_of_error([&] { rig.runtime().destroy_stream(from); }),
            ErrorKind::invalid_argument);
  pool.deallocate(pool.allocate(2 * block_bytes, to), to);  // A stream that is new to the pool.
  rig.stop(from);
  pool.deallocate(block, from);
  void* other = pool.allocate(block_bytes, to);
  EXPECT_NE(other, block) << "the work before the free still runs";
  rig.let_go(from);
  pool.deallocate(other, to);
}

TEST(Reuse, ManyFreesOnForeignStreamsAreMarkedNowAndThen) {
  PoolRig rig;
  const Stream from = PoolRig::as_stream(rig.foreign_stream());
  const Pool pool = rig.runtime().make_pool(gpu(0));
  std::vector<void*> blocks;
  for (int i = 0; i < 200; ++i) blocks.push_back(pool.allocate(1000, from));
  for (void* block : blocks) pool.deallocate(block, from);
  const std::size_t pending = pool.stats().pending_bytes;
  pool.trim(SIZE_MAX);  // Gives nothing back, but looks.
  EXPECT_LT(pool.stats().pending_bytes, pending / 3);
}

}  // namespace
}  // namespace vma
