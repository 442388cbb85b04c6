// Goal: clean copies are kept per slot and epoch, and are given up when others need the room.
// Method: a simulated machine whose host holds eight pages; the test leaves the copies itself.
#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

constexpr Place there = host(0);

MemoryLimits eight_pages() {
  MemoryLimits limits;
  limits.capacity_bytes[there] = 8 * page_bytes;
  return limits;
}

class CleanCopiesTest : public testing::Test {
 protected:
  CleanCopiesTest() {
    const MutexLock lock(owner_->operations());
    owner_->set_read_only(true, rig_.topology());
  }

  Memory& memory() { return rig_.memory(); }
  void keep(std::size_t slot, std::uint64_t pages) {
    memory().chunks().keep_copy(*owner_, slot, owner_->writable_epoch(), rig_.chunk(there, pages));
  }
  std::uint64_t pages_of_copies() { return rig_.account(there).copies_bytes / page_bytes; }
  std::uint64_t dropped() { return memory().chunks().copies().counts().dropped; }
  int made() const { return rig_.calls(Call::create); }

  MemoryRig rig_{"test-2", eight_pages()};
  std::shared_ptr<Allocation> owner_ = rig_.alloc(8, gpu(0), 2);  // Four slots.
};

TEST_F(CleanCopiesTest, IsFoundAtItsPlaceInItsEpochOnly) {
  keep(1, 2);
  const std::uint64_t epoch = owner_->writable_epoch();
  CleanCopies& copies = memory().chunks().copies();
  EXPECT_TRUE(copies.has(owner_->begin(), 1, there, epoch));
  EXPECT_FALSE(memory().chunks().take_copy(*owner_, 0, there, epoch));
  EXPECT_FALSE(memory().chunks().take_copy(*owner_, 1, gpu(1), epoch));
  EXPECT_FALSE(memory().chunks().take_copy(*owner_, 1, there, epoch + 1));
  Chunk copy = memory().chunks().take_copy(*owner_, 1, there, epoch);
  ASSERT_TRUE(copy);
  EXPECT_FALSE(copies.has(owner_->begin(), 1, there, epoch)) << "it is somebody's now";
  EXPECT_EQ(rig_.account(there).allocated_bytes, 2 * page_bytes);
  memory().chunks().retire(std::move(copy));
  check_settled(memory());
}

TEST_F(CleanCopiesTest, OneThatWentStaleIsNotKept) {
  const std::uint64_t epoch = owner_->writable_epoch();
  {
    const MutexLock lock(owner_->operations());
    owner_->set_read_only(false, rig_.topology());
  }
  memory().chunks().keep_copy(*owner_, 0, epoch, rig_.chunk(there, 2));
  EXPECT_EQ(pages_of_copies(), 0u);
  EXPECT_EQ(rig_.cached(there), 2 * page_bytes);
  check_settled(memory());
}

TEST_F(CleanCopiesTest, ASlotHasOne) {
  keep(0, 2);
  keep(0, 2);
  EXPECT_EQ(pages_of_copies(), 2u);
  EXPECT_EQ(dropped(), 1u);
  check_settled(memory());
}

TEST_F(CleanCopiesTest, IsRoomForAnAllocationThatTakesNoMoreThanItNeeds) {
  for (std::size_t slot = 0; slot < 4; ++slot) keep(slot, 2);
  EXPECT_EQ(memory().chunks().room_bytes(there), 8 * page_bytes);
  const auto allocation = rig_.alloc(3, there, 1);
  rig_.expect_shown(*allocation);
  EXPECT_EQ(pages_of_copies(), 4u);
  EXPECT_FALSE(memory().chunks().copies().has(owner_->begin(), 0, there, owner_->writable_epoch()))
      << "the oldest go first";
  expect_error(ErrorKind::out_of_memory, [&] { rig_.alloc(6, there, 1); });
  rig_.free(allocation);
  check_settled(memory());
}

TEST_F(CleanCopiesTest, OneOfTheSizeThatIsWantedIsTakenAsItIs) {
  keep(0, 4);
  keep(1, 2);
  keep(2, 2);
  rig_.forget_calls();
  Chunk chunk = memory().chunks().obtain(there, 2 * page_bytes, ChunkStore::Turn::take);
  EXPECT_EQ(made(), 0);
  EXPECT_EQ(rig_.calls(Call::release), 0);
  EXPECT_EQ(pages_of_copies(), 6u);
  memory().chunks().retire(std::move(chunk));
  check_settled(memory());
}

TEST_F(CleanCopiesTest, GoesBeforeReservedMemoryIsRefused) {
  for (std::size_t slot = 0; slot < 4; ++slot) keep(slot, 2);
  memory().chunks().reserve(there, 5 * page_bytes, page_bytes);
  EXPECT_EQ(rig_.cached(there), 5 * page_bytes);
  EXPECT_EQ(pages_of_copies(), 2u);
  check_settled(memory());
}

TEST_F(CleanCopiesTest, ATrimGivesThemBack) {
  keep(0, 2);
  keep(3, 2);
  rig_.forget_calls();
  EXPECT_EQ(memory().chunks().trim(there), 4 * page_bytes);
  EXPECT_EQ(rig_.calls(Call::release), 2);
  EXPECT_EQ(rig_.account(there).total(), 0u);
  EXPECT_EQ(dropped(), 2u);
  check_settled(memory());
}

TEST_F(CleanCopiesTest, ALowerCapacityTakesWhatLiesOverIt) {
  for (std::size_t slot = 0; slot < 4; ++slot) keep(slot, 2);
  memory().chunks().set_capacity(there, 5 * page_bytes);
  EXPECT_EQ(pages_of_copies(), 4u);
  memory().chunks().set_capacity(there, 0);
  EXPECT_EQ(pages_of_copies(), 0u);
  memory().chunks().set_capacity(there, 8 * page_bytes);
  check_settled(memory());
}

// The addresses may be reused with other bytes behind them, and with epochs that start again.
TEST_F(CleanCopiesTest, AFreeDropsThoseOfItsAllocation) {
  const auto other = rig_.alloc(2, gpu(0), 2);
  {
    const MutexLock lock(other->operations());
    other->set_read_only(true, rig_.topology());
  }
  memory().chunks().keep_copy(*other, 0, other->writable_epoch(), rig_.chunk(there, 2));
  keep(0, 2);
  keep(3, 2);
  const Address begin = owner_->begin();
  rig_.free(owner_);
  EXPECT_EQ(pages_of_copies(), 2u);
  EXPECT_FALSE(memory().chunks().copies().has(begin, 0, there, 0));
  EXPECT_TRUE(memory().chunks().copies().has(other->begin(), 0, there, other->writable_epoch()));
  check_settled(memory());
}

TEST_F(CleanCopiesTest, NoneIsKeptOfWhatIsBeingFreed) {
  owner_->being_freed = true;  // Its addresses may soon be reused.
  keep(0, 2);
  EXPECT_EQ(pages_of_copies(), 0u);
  owner_->being_freed = false;
}

TEST_F(CleanCopiesTest, ThoseOfOtherAllocationsStay) {
  const auto other = rig_.alloc(2, gpu(0), 2);
  {
    const MutexLock lock(other->operations());
    other->set_read_only(true, rig_.topology());
  }
  keep(0, 2);
  memory().chunks().keep_copy(*other, 0, other->writable_epoch(), rig_.chunk(there, 2));
  const bool other_is_behind = owner_->begin() < other->begin();
  const Allocation& first = other_is_behind ? *owner_ : *other;
  const Allocation& behind = other_is_behind ? *other : *owner_;
  memory().chunks().drop_copies(first);
  EXPECT_FALSE(memory().chunks().copies().has(first.begin(), 0, there, first.writable_epoch()));
  EXPECT_TRUE(memory().chunks().copies().has(behind.begin(), 0, there, behind.writable_epoch()));
}

TEST_F(CleanCopiesTest, TheEndGivesThemBack) {
  keep(0, 2);
  rig_.close();  // The rig looks for leaks.
}

}  // namespace
}  // namespace vma
