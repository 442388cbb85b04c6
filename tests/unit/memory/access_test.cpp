// Goal: within a read-only scope the readers of every slot may read and nobody may write; the end
// of the last scope restores write access; reused memory is never read-only. Method: asks the
// simulated machine for the rights.
#include "memory/chunk.hpp"

#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace vma {
namespace {

class AccessTest : public testing::Test {
 protected:
  void set_read_only(bool read_only) {
    const MutexLock lock(allocation_->operations());
    allocation_->set_read_only(read_only, rig_.topology());
  }
  /// Moves the chunk of the middle slot to another place without mapping it.
  void move_middle(Place to) {
    Chunk target = rig_.chunk(to, 2);
    const Address begin = allocation_->slot_begin(1);
    rig_.machine().unmap(begin, 2 * page_);
    rig_.machine().map(begin, 2 * page_, target.handle());
    rig_.machine().grant(begin, 2 * page_, allocation_->accessors(to, rig_.topology()));
    rig_.memory().chunks().retire(allocation_->replace(1, std::move(target)));
  }
  void expect_access(Access most) {
    for (std::size_t slot = 0; slot < 3; ++slot) {
      for (const Accessor& reader : rig_.topology().readers(allocation_->place(slot))) {
        EXPECT_EQ(rig_.machine().access(allocation_->slot_begin(slot), reader.who), most)
            << to_string(reader.who) << " at slot " << slot;
      }
    }
    EXPECT_EQ(allocation_->access(), most);
  }

  MemoryRig rig_;
  const std::uint64_t page_ = rig_.page();
  std::shared_ptr<Allocation> allocation_ = rig_.alloc(5, gpu(0), 2);
};

TEST_F(AccessTest, TakesTheRightToWriteFromEveryReaderAndGivesItBack) {
  move_middle(host(0));
  expect_access(Access::read_write);
  const std::uint64_t epoch = allocation_->writable_epoch();
  set_read_only(true);
  expect_access(Access::read);
  EXPECT_TRUE(allocation_->read_only());
  EXPECT_EQ(allocation_->writable_epoch(), epoch) << "nobody may write more than before";
  set_read_only(true);
  set_read_only(false);
  expect_access(Access::read);
  EXPECT_EQ(allocation_->writable_epoch(), epoch) << "another scope still lives";
  set_read_only(false);
  expect_access(Access::read_write);
  EXPECT_GT(allocation_->writable_epoch(), epoch);
}

TEST_F(AccessTest, GrantsARunOfSlotsAtOnce) {
  rig_.forget_calls();
  set_read_only(true);
  EXPECT_EQ(rig_.calls(Call::grant), 1);
  move_middle(gpu(1));
  expect_access(Access::read);
  rig_.forget_calls();
  set_read_only(false);
  EXPECT_EQ(rig_.calls(Call::grant), 3);
}

TEST_F(AccessTest, LeavesEverybodyWritingWhereItFails) {
  move_middle(gpu(1));
  for (const int number : {0, 1, 2}) {
    SCOPED_TRACE(number);
    const std::uint64_t epoch = allocation_->writable_epoch();
    rig_.fail({Call::grant}, {number});
    expect_error(ErrorKind::out_of_memory, [&] { set_read_only(true); });
    rig_.fail_nothing();
    expect_access(Access::read_write);
    EXPECT_GT(allocation_->writable_epoch(), epoch) << "some could not write, and can again";
  }
  set_read_only(true);
  expect_access(Access::read);
  set_read_only(false);
}

TEST_F(AccessTest, GrantsWritingWhereItCanWhenTheEndFails) {
  move_middle(gpu(1));
  set_read_only(true);
  rig_.fail({Call::grant}, {0});
  expect_error(ErrorKind::out_of_memory, [&] { set_read_only(false); });
  rig_.fail_nothing();
  EXPECT_EQ(rig_.machine().access(allocation_->slot_begin(0), gpu(0)), Access::read);
  EXPECT_EQ(rig_.machine().access(allocation_->slot_begin(1), gpu(0)), Access::read_write);
  EXPECT_EQ(rig_.machine().access(allocation_->slot_begin(2), gpu(0)), Access::read_write);
  EXPECT_FALSE(allocation_->read_only());
  EXPECT_FALSE(allocation_->reusable());
  set_read_only(true);
  set_read_only(false);  // The next scope restores the rights.
  expect_access(Access::read_write);
}

TEST_F(AccessTest, IsNotReusedWhereTheEndFailed) {
  set_read_only(true);
  rig_.fail({Call::grant}, {0});
  expect_error(ErrorKind::out_of_memory, [&] { set_read_only(false); });
  rig_.fail_nothing();
  ASSERT_TRUE(allocation_->at_one_place());
  EXPECT_FALSE(allocation_->reusable());
  set_read_only(true);
  set_read_only(false);
  EXPECT_TRUE(allocation_->reusable()) << "another scope has mended it";
}

TEST_F(AccessTest, IsNotReusedWhileSomeSlotMayBeReadOnly) {
  set_read_only(true);
  rig_.free(allocation_);  // The scope outlives it.
  rig_.memory().check_invariants();
  const auto next = rig_.alloc(5, gpu(0), 2);
  rig_.expect_shown(*next);
  set_read_only(false);
  rig_.expect_shown(*next);
  EXPECT_THROW(rig_.machine().pointer_info(allocation_->begin()), Error) << "it is gone";
}

TEST_F(AccessTest, PassesOverDarkSlots) {
  rig_.machine().unmap(allocation_->slot_begin(1), 2 * page_);
  allocation_->poison(1, false);
  set_read_only(true);
  EXPECT_EQ(rig_.machine().access(allocation_->slot_begin(0), gpu(1)), Access::read);
  EXPECT_EQ(rig_.machine().access(allocation_->slot_begin(2), gpu(1)), Access::read);
  set_read_only(false);
  EXPECT_EQ(rig_.machine().access(allocation_->slot_begin(2), gpu(1)), Access::read_write);
}

TEST_F(AccessTest, PassesOverDarkSlotsThatStillShowSomething) {
  allocation_->poison(1, true);
  rig_.forget_calls();
  set_read_only(true);
  EXPECT_EQ(rig_.calls(Call::grant), 2);
  EXPECT_EQ(rig_.machine().access(allocation_->slot_begin(0), gpu(1)), Access::read);
  EXPECT_EQ(rig_.machine().access(allocation_->slot_begin(1), gpu(1)), Access::read_write);
  set_read_only(false);
}

using VerifyAccessDeathTest = AccessTest;

TEST_F(VerifyAccessDeathTest, EndsTheProcessWhereAGrantIsMissing) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const std::vector<Accessor>& readers = rig_.topology().readers(gpu(0));
  check_access(rig_.driver(), allocation_->begin(), 5 * page_, readers);
  const Accessor less{gpu(1), Access::read};
  EXPECT_DEATH(
      {
        rig_.machine().grant(allocation_->slot_begin(2), page_, {&less, 1});
        check_access(rig_.driver(), allocation_->begin(), 5 * page_, readers);
      },
      "a slot grants the requested access");
  rig_.fail({Call::access}, {0, 1, 2, 3});
  // An unanswered query is not a breach.
  check_access(rig_.driver(), allocation_->begin(), 5 * page_, readers);
}

}  // namespace
}  // namespace vma
