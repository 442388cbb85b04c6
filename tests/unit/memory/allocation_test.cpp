// Goal: an allocation's slots show all of their chunks or none; the chunk of a slot that cannot be
// unmapped is never reused; `extents` tells where the bytes are.
#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace vma {
namespace {

/// An empty allocation of three slots, the last one shorter, and chunks for them.
class AllocationTest : public testing::Test {
 protected:
  AllocationTest() {
    for (std::size_t slot = 0; slot < geometry_.slots; ++slot) {
      chunks_.push_back(rig_.chunk(gpu(0), geometry_.slot_bytes(slot) / page_));
    }
  }
  ~AllocationTest() override {
    rig_.fail_nothing();
    for (Chunk& chunk : MemoryRig::take_apart(allocation_)) chunks_.push_back(std::move(chunk));
    for (const Chunk& chunk : chunks_) rig_.unclaim(chunk);
  }

  void show() { allocation_.show_all(chunks_, rig_.topology()); }
  void restore(Chunk& chunk) {
    allocation_.restore(1, {&chunk, 1}, [&](Address begin, std::uint64_t size_bytes) {
      rig_.driver().grant(begin, size_bytes, rig_.topology().readers(gpu(0)));
    });
  }

  MemoryRig rig_;
  const std::uint64_t page_ = rig_.page();
  const Geometry geometry_{2 * page_, page_, 3};
  std::vector<Chunk> chunks_;
  Allocation allocation_{rig_.driver(), rig_.memory().chunks().ledger(),
                         Reservation(rig_.driver(), rig_.memory().chunks().ledger(), 5 * page_),
                         geometry_};
};

TEST_F(AllocationTest, ShowsEachChunkInItsSlotWithOneGrant) {
  rig_.forget_calls();
  show();
  EXPECT_EQ(rig_.calls(Call::map), 3);
  EXPECT_EQ(rig_.calls(Call::grant), 1);
  EXPECT_TRUE(chunks_.empty());
  EXPECT_EQ(allocation_.size_bytes(), 5 * page_);
  EXPECT_EQ(allocation_.slot_begin(2) - allocation_.begin(), 4 * page_);
  rig_.expect_shown(allocation_);
  EXPECT_TRUE(allocation_.at_one_place());
  EXPECT_EQ(allocation_.extents(), (std::vector<Extent>{{0, 5 * page_, gpu(0), 0}}));
}

TEST_F(AllocationTest, ShowsAllOrNothing) {
  for (const auto& [call, number] :
       {std::pair{Call::map, 0}, {Call::map, 1}, {Call::map, 2}, {Call::grant, 0}}) {
    SCOPED_TRACE(testing::Message() << to_string(call) << " " << number);
    rig_.fail({call}, {number});
    expect_error(ErrorKind::out_of_memory, [&] { show(); });
    EXPECT_EQ(chunks_.size(), 3u) << "they are the caller's again";
    for (std::size_t slot = 0; slot < 3; ++slot) {
      EXPECT_THROW(rig_.machine().pointer_info(allocation_.slot_begin(slot)), Error);
    }
  }
  show();  // It can be tried again.
  rig_.expect_shown(allocation_);
}

TEST_F(AllocationTest, KeepsAChunkThatAFailedShowCannotUnmap) {
  rig_.fail({Call::map, Call::unmap}, {2, 3});  // The third map, then the first unmap.
  expect_error(ErrorKind::out_of_memory, [&] { show(); });
  EXPECT_EQ(chunks_.size(), 2u);
  EXPECT_EQ(rig_.memory().chunks().ledger().leaks(), 1u);
  EXPECT_EQ(rig_.account(gpu(0)).allocated_bytes, 3 * page_) << "its bytes are nobody's any more";
}

TEST_F(AllocationTest, IsTakenApartIntoItsChunks) {
  show();
  std::vector<Chunk> chunks = MemoryRig::take_apart(allocation_);
  ASSERT_EQ(chunks.size(), 3u);
  EXPECT_EQ(chunks[0].size_bytes(), 2 * page_);
  EXPECT_EQ(chunks[2].size_bytes(), page_);
  EXPECT_THROW(rig_.machine().pointer_info(allocation_.begin()), Error);
  EXPECT_TRUE(MemoryRig::take_apart(allocation_).empty()) << "once";
  chunks_ = std::move(chunks);
}

TEST_F(AllocationTest, CountsASlotThatCannotBeUnmapped) {
  show();
  rig_.fail({Call::unmap}, {1});
  chunks_ = MemoryRig::take_apart(allocation_);
  EXPECT_EQ(chunks_.size(), 2u);
  EXPECT_EQ(rig_.memory().chunks().ledger().leaks(), 1u);
  allocation_.unreserve();
  EXPECT_EQ(rig_.memory().chunks().ledger().leaks(), 1u)
      << "addresses that show memory are not given back";
  EXPECT_EQ(rig_.account(gpu(0)).allocated_bytes, 3 * page_);
  EXPECT_EQ(rig_.account(gpu(0)).leaked_bytes, 2 * page_);
}

TEST_F(AllocationTest, CountsEverySlotThatCannotBeUnmapped) {
  show();
  rig_.fail({Call::unmap}, {0, 2, 3});  // The first slot, the second, and its staging mapping.
  chunks_ = MemoryRig::take_apart(allocation_);
  EXPECT_EQ(chunks_.size(), 1u);
  EXPECT_EQ(rig_.memory().chunks().ledger().leaks(), 3u);
  EXPECT_EQ(rig_.account(gpu(0)).leaked_bytes, 4 * page_) << "bytes that two hold count once";
  EXPECT_EQ(rig_.account(gpu(0)).allocated_bytes, page_);
}

TEST_F(AllocationTest, MergesNeighboursAtOnePlaceAndCountsGenerations) {
  show();
  Chunk source = allocation_.replace(1, rig_.chunk(gpu(1), 2));
  EXPECT_EQ(source.at(), gpu(0));
  EXPECT_EQ(allocation_.place(1), gpu(1));
  EXPECT_EQ(allocation_.generation(1), 1u);
  EXPECT_EQ(allocation_.generation(0), 0u);
  EXPECT_FALSE(allocation_.at_one_place());
  EXPECT_EQ(allocation_.extents(), (std::vector<Extent>{{0, 2 * page_, gpu(0), 0},
                                                        {2 * page_, 2 * page_, gpu(1), 1},
                                                        {4 * page_, page_, gpu(0), 0}}));
  Chunk target = allocation_.replace(1, std::move(source));
  EXPECT_EQ(allocation_.extents(), (std::vector<Extent>{{0, 5 * page_, gpu(0), 2}}));
  chunks_.push_back(std::move(target));
}

TEST_F(AllocationTest, IsPoisonedWhereAFailedRestoreCannotBeUndone) {
  show();
  Chunk chunk = allocation_.drop(1);
  rig_.fail({Call::grant, Call::unmap}, {0, 1, 2, 3});
  expect_error(ErrorKind::out_of_memory, [&] { restore(chunk); });
  EXPECT_EQ(rig_.driver().fired(), 4);
  rig_.fail_nothing();
  EXPECT_TRUE(allocation_.poisoned());
  EXPECT_FALSE(allocation_.dropped(1));
  EXPECT_FALSE(chunk) << "it lies behind the mapping that stays";
  rig_.forget_calls();
  const MutexLock operations(allocation_.operations());
  allocation_.set_read_only(true, rig_.topology());
  EXPECT_EQ(rig_.calls(Call::grant), 2) << "of the slots beside it";
}

TEST_F(AllocationTest, IsDroppedStillWhereAFailedRestoreWasUndone) {
  show();
  Chunk chunk = allocation_.drop(1);
  rig_.fail({Call::grant, Call::unmap}, {0, 1, 2});
  expect_error(ErrorKind::out_of_memory, [&] { restore(chunk); });
  rig_.fail_nothing();
  EXPECT_FALSE(allocation_.poisoned());
  EXPECT_TRUE(allocation_.dropped(1));
  restore(chunk);
  rig_.expect_shown(allocation_);
}

TEST_F(AllocationTest, StaysPoisonedAndKeepsTheChunk) {
  show();
  EXPECT_FALSE(allocation_.poisoned());
  rig_.machine().unmap(allocation_.slot_begin(1), 2 * page_);
  allocation_.poison(1, false);
  EXPECT_TRUE(allocation_.poisoned());
  EXPECT_FALSE(allocation_.at_one_place()) << "it must not be used again";
  EXPECT_TRUE(allocation_.chunk(1)) << "the bytes are in it";
  EXPECT_EQ(allocation_.extents().size(), 1u);
}

}  // namespace
}  // namespace vma
