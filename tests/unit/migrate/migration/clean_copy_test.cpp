// Goal: a chunk promoted with a clean copy left behind returns without a copy if it could not be
// written since; writes are never lost. Method: moves under a hold on a simulated machine that
// counts copies, and failing calls.
#include "migrate/migration/transaction.hpp"
#include "unit/migrate/moves/move_rig.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t seed = 1000, other_seed = 5'000'000;

/// No host memory is made ahead or kept, so that each call belongs to the move.
MemoryLimits no_host_cache() {
  MemoryLimits limits;
  limits.host_cache_bytes = 0;
  return limits;
}

class CleanCopyMoveTest : public testing::Test {
 protected:
  CleanCopyMoveTest() { keeps_.keep_clean_copy = true; }

  void declare(bool read_only) {
    const MutexLock lock(words_->operations());
    words_->set_read_only(read_only, rig_.topology());
  }
  /// Moves to GPU 0 and leaves copies behind.
  MigrationReport promote() { return rig_.move(*words_, gpu(0), keeps_); }
  MigrationReport demote() {
    rig_.memory().chunks().slow_calls().await_empty();
    rig_.forget_calls();
    return rig_.move(*words_, host(0));
  }
  std::uint64_t copies_bytes() { return rig_.account(host(0)).copies_bytes; }
  void expect_whole(std::uint64_t content, Place at) {
    EXPECT_EQ(words_->extents().size(), 1u);
    EXPECT_EQ(words_->extents().front().at, at);
    EXPECT_EQ(rig_.wrong(*words_, content), 0u);
    EXPECT_EQ(rig_.wrong_for(1, *words_, content), 0u);
    rig_.memory().chunks().slow_calls().await_empty();
    rig_.memory().check_invariants();
  }

  MoveRig rig_{"test-2", no_host_cache()};
  MigrateOptions keeps_;
  std::shared_ptr<Allocation> words_ = rig_.filled(8, host(0), 2, seed);  // Four chunks.
};

TEST_F(CleanCopyMoveTest, TheWayBackIsARemap) {
  declare(true);
  const MigrationReport there = promote();
  EXPECT_EQ(there.copies_kept, 4);
  EXPECT_EQ(there.bytes_remapped, 0u);
  EXPECT_EQ(copies_bytes(), 8 * page);
  expect_whole(seed, gpu(0));
  const MigrationReport back = demote();
  EXPECT_EQ(back.bytes_moved, 8 * page);
  EXPECT_EQ(back.bytes_remapped, 8 * page);
  EXPECT_EQ(rig_.calls(Call::copy), 0);
  EXPECT_EQ(rig_.calls(Call::create), 0);
  EXPECT_EQ(copies_bytes(), 0u);
  expect_whole(seed, host(0));
  const CleanCopies::Counts counts = rig_.memory().chunks().copies().counts();
  EXPECT_EQ(counts.kept, 4u);
  EXPECT_EQ(counts.used, 4u);
  EXPECT_EQ(counts.used_bytes, 8 * page);
  EXPECT_EQ(counts.dropped, 0u);
}

// Unlike a ReadOnly of the public interface, nothing here drops the copies: they stay at the
// target, for the same slots, with the old bytes.
TEST_F(CleanCopyMoveTest, WhatWasWrittenSinceIsNotLost) {
  declare(true);
  promote();
  declare(false);
  rig_.fill(*words_, other_seed);
  declare(true);
  ASSERT_EQ(copies_bytes(), 8 * page);
  const MigrationReport back = demote();
  EXPECT_EQ(back.bytes_remapped, 0u);
  EXPECT_GT(rig_.calls(Call::copy), 0);
  expect_whole(other_seed, host(0));
}

TEST_F(CleanCopyMoveTest, NoneIsKeptUnasked) {
  declare(true);
  EXPECT_EQ(rig_.move(*words_, gpu(0)).copies_kept, 0);
  EXPECT_EQ(copies_bytes(), 0u);
}

TEST_F(CleanCopyMoveTest, NoneIsKeptOfWhatMayBeWrittenTo) {
  EXPECT_EQ(promote().copies_kept, 0);
  EXPECT_EQ(copies_bytes(), 0u);
  EXPECT_EQ(demote().bytes_remapped, 0u);
  expect_whole(seed, host(0));
}

// Holders of an exported handle can write whatever the rights of the slot.
TEST_F(CleanCopyMoveTest, NoneIsKeptOfWhatIsExported) {
  declare(true);
  words_->exported = true;
  const std::uint64_t hook = words_->hooks().add({[](const MoveEvent&) {}, {}});
  EXPECT_EQ(promote().copies_kept, 0);
  EXPECT_EQ(copies_bytes(), 0u);
  words_->hooks().remove(hook);
}

TEST_F(CleanCopyMoveTest, AMoveBehindAFreeTakesNone) {
  declare(true);
  promote();
  words_->being_freed = true;  // Its addresses, and anything keyed by them, may be reused.
  {
    Transaction late(rig_.memory(), rig_.engine(), *words_, 0, host(0));
    EXPECT_FALSE(late.take_clean_target());
  }
  EXPECT_EQ(copies_bytes(), 8 * page);
  words_->being_freed = false;
}

TEST_F(CleanCopyMoveTest, BetweenGpusNoneIsKeptAndThatAtTheHostStays) {
  declare(true);
  promote();
  EXPECT_EQ(rig_.move(*words_, gpu(1), keeps_).copies_kept, 0);
  EXPECT_EQ(copies_bytes(), 8 * page);
  EXPECT_EQ(demote().bytes_remapped, 8 * page);
  expect_whole(seed, host(0));
}

TEST_F(CleanCopyMoveTest, WhereSomeCopiesAreGoneTheOthersAreUsed) {
  declare(true);
  promote();
  Memory& memory = rig_.memory();
  for (const std::size_t slot : {0u, 2u}) {
    memory.chunks().retire(
        memory.chunks().take_copy(*words_, slot, host(0), words_->writable_epoch()));
  }
  memory.chunks().trim(gpu(1));
  const MigrationReport back = demote();
  EXPECT_EQ(back.bytes_moved, 8 * page);
  EXPECT_EQ(back.bytes_remapped, 4 * page);
  expect_whole(seed, host(0));
}

TEST_F(CleanCopyMoveTest, AMoveThatFailsLeavesTheCopiesForTheNext) {
  declare(true);
  promote();
  rig_.fail({Call::map}, {0, 1});  // The target, before and after the spares are given up.
  expect_error(ErrorKind::out_of_memory, [&] { demote(); });
  rig_.fail_nothing();
  expect_whole(seed, gpu(0));
  EXPECT_EQ(copies_bytes(), 8 * page);
  EXPECT_EQ(demote().bytes_remapped, 8 * page);
  expect_whole(seed, host(0));
  EXPECT_EQ(rig_.memory().chunks().copies().counts().kept, 4u)
      << "not again by the move that failed";
}

TEST_F(CleanCopyMoveTest, AnotherMoveGetsTheirRoom) {
  declare(true);
  promote();
  const auto other = rig_.filled(8, gpu(1), 2, other_seed);
  rig_.memory().chunks().trim(gpu(1));
  Memory& memory = rig_.memory();
  memory.chunks().slow_calls().await_empty();
  memory.chunks().set_capacity(host(0), rig_.account(host(0)).total());
  ASSERT_EQ(copies_bytes(), 8 * page);
  rig_.move(*other, host(0));
  EXPECT_EQ(other->extents().front().at, host(0));
  EXPECT_EQ(rig_.wrong(*other, other_seed), 0u);
  EXPECT_EQ(copies_bytes(), 0u);
  expect_whole(seed, gpu(0));
}

}  // namespace
}  // namespace vma
