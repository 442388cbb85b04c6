// Goal: the cache hands out chunks that fit, keeps to its budgets and accounts for every byte once.
#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace vma {
namespace {

/// A separate cache on the rig's ledger, with budgets of ten pages per GPU and four per host.
class ChunkCacheTest : public testing::Test {
 protected:
  ~ChunkCacheTest() override {
    for (const Place at : rig_.topology().places()) destroy(cache_.take_all(at));
    for (const Place at : rig_.topology().places()) {
      EXPECT_EQ(rig_.account(at).allocated_bytes, 0u) << to_string(at);
    }
  }

  std::uint64_t pages(std::uint64_t count) const { return count * rig_.page(); }
  ChunkHandle put(Place at, std::uint64_t size_pages) {
    Chunk chunk = rig_.chunk(at, size_pages);
    const ChunkHandle handle = chunk.handle();
    cache_.put(std::move(chunk));
    return handle;
  }
  /// An allocation as it is when freed, outside the rig's own cache.
  std::shared_ptr<Allocation> freed(Place at, std::uint64_t size_pages, std::uint64_t chunk_pages) {
    const auto allocation = rig_.alloc(size_pages, at, chunk_pages);
    const Geometry geometry = allocation->geometry();
    rig_.free(allocation);
    return rig_.memory().chunks().cache().take_allocation(at, geometry);
  }
  void drop(Chunk chunk) { rig_.unclaim(chunk); }
  void destroy(ChunkCache::Surplus surplus) {
    for (const auto& allocation : surplus.allocations) {
      for (Chunk& chunk : MemoryRig::take_apart(*allocation)) drop(std::move(chunk));
    }
    for (Chunk& chunk : surplus.chunks) drop(std::move(chunk));
  }

  MemoryRig rig_;
  ChunkCache cache_{rig_.memory().chunks().ledger(), 10 * rig_.page(), 4 * rig_.page()};
};

TEST_F(ChunkCacheTest, GivesTheYoungestOfJustTheSize) {
  put(gpu(0), 2);
  const ChunkHandle younger = put(gpu(0), 2);
  put(gpu(0), 3);
  EXPECT_EQ(cache_.count(gpu(0), pages(2)), 2u);
  Chunk taken = cache_.take(gpu(0), pages(2));
  EXPECT_EQ(taken.handle(), younger);
  EXPECT_EQ(cache_.count(gpu(0), pages(2)), 1u);
  EXPECT_FALSE(cache_.take(gpu(0), pages(1)));
  EXPECT_FALSE(cache_.take(gpu(0), pages(4)));
  drop(std::move(taken));
}

TEST_F(ChunkCacheTest, KeepsPlacesApart) {
  put(gpu(0), 1);
  EXPECT_FALSE(cache_.take(gpu(1), pages(1)));
  EXPECT_FALSE(cache_.take(host(0), pages(1)));
  EXPECT_EQ(cache_.cached_bytes(gpu(1)), 0u);
  EXPECT_EQ(cache_.cached_bytes(gpu(0)), pages(1));
}

TEST_F(ChunkCacheTest, BooksWhatItHolds) {
  put(gpu(0), 3);
  EXPECT_EQ(rig_.account(gpu(0)).cached_bytes, pages(3));
  EXPECT_EQ(rig_.account(gpu(0)).allocated_bytes, 0u);
  Chunk chunk = cache_.take(gpu(0), pages(3));
  EXPECT_EQ(rig_.account(gpu(0)).cached_bytes, 0u);
  EXPECT_EQ(rig_.account(gpu(0)).allocated_bytes, pages(3));
  drop(std::move(chunk));
}

TEST_F(ChunkCacheTest, HandsOutOnlyWhatIsOverTheBudget) {
  for (int i = 0; i < 10; ++i) put(gpu(0), 1);
  EXPECT_TRUE(cache_.take_surplus(gpu(0)).empty());
  put(gpu(0), 2);
  ChunkCache::Surplus surplus = cache_.take_surplus(gpu(0));
  ASSERT_EQ(surplus.chunks.size(), 1u);
  EXPECT_EQ(surplus.chunks[0].size_bytes(), pages(2)) << "the largest goes first";
  EXPECT_EQ(surplus.size_bytes, pages(2));
  EXPECT_EQ(cache_.cached_bytes(gpu(0)), pages(10));
  destroy(std::move(surplus));
}

TEST_F(ChunkCacheTest, HandsOutTheOldestOfASizeFirst) {
  const ChunkHandle oldest = put(gpu(0), 4);
  put(gpu(0), 4);
  put(gpu(0), 4);
  ChunkCache::Surplus surplus = cache_.take_surplus(gpu(0));
  ASSERT_EQ(surplus.chunks.size(), 1u);
  EXPECT_EQ(surplus.chunks[0].handle(), oldest);
  destroy(std::move(surplus));
}

TEST_F(ChunkCacheTest, HasABudgetOfItsOwnForHosts) {
  for (int i = 0; i < 5; ++i) put(host(0), 1);
  EXPECT_EQ(cache_.budget_bytes(host(0)), pages(4));
  EXPECT_EQ(cache_.budget_bytes(gpu(1)), pages(10));
  ChunkCache::Surplus surplus = cache_.take_surplus(host(0));
  EXPECT_EQ(surplus.size_bytes, pages(1));
  destroy(std::move(surplus));
}

TEST_F(ChunkCacheTest, GivesUpWholeAllocationsBeforeChunks) {
  cache_.put_allocation(gpu(0), freed(gpu(0), 4, 2));
  for (int i = 0; i < 8; ++i) put(gpu(0), 1);
  ChunkCache::Surplus surplus = cache_.take_surplus(gpu(0));
  EXPECT_EQ(surplus.allocations.size(), 1u);
  EXPECT_TRUE(surplus.chunks.empty());
  EXPECT_EQ(surplus.size_bytes, pages(4));
  EXPECT_EQ(cache_.cached_bytes(gpu(0)), pages(8));
  destroy(std::move(surplus));
}

TEST_F(ChunkCacheTest, RaisesABudgetUntilEverythingIsTaken) {
  cache_.reserve_budget(gpu(0), pages(1), 3);
  cache_.reserve_budget(gpu(0), pages(2), 1);
  EXPECT_EQ(cache_.budget_bytes(gpu(0)), pages(15));
  cache_.reserve_budget(gpu(0), pages(1), 3);
  EXPECT_EQ(cache_.budget_bytes(gpu(0)), pages(15)) << "the same once more raises nothing";
  cache_.reserve_budget(gpu(0), pages(1), 2);
  EXPECT_EQ(cache_.budget_bytes(gpu(0)), pages(15)) << "nor does less lower it";
  EXPECT_EQ(cache_.budget_bytes(gpu(1)), pages(10));
  for (int i = 0; i < 15; ++i) put(gpu(0), 1);
  EXPECT_TRUE(cache_.take_surplus(gpu(0)).empty());
  ChunkCache::Surplus all = cache_.take_all(gpu(0));
  EXPECT_EQ(all.size_bytes, pages(15));
  EXPECT_EQ(cache_.cached_bytes(gpu(0)), 0u);
  EXPECT_EQ(cache_.budget_bytes(gpu(0)), pages(10)) << "what was raised falls back";
  destroy(std::move(all));
}

TEST_F(ChunkCacheTest, GivesUpAllButOneSize) {
  cache_.put_allocation(gpu(0), freed(gpu(0), 4, 2));
  for (int i = 0; i < 2; ++i) put(gpu(0), 1);
  put(gpu(0), 2);
  put(gpu(0), 3);
  put(gpu(1), 3);
  ChunkCache::Surplus others = cache_.take_others(gpu(0), pages(2));
  EXPECT_EQ(others.size_bytes, pages(4 + 2 + 3));
  EXPECT_EQ(cache_.count(gpu(0), pages(2)), 1u);
  EXPECT_EQ(cache_.cached_bytes(gpu(0)), pages(2));
  EXPECT_EQ(cache_.cached_bytes(gpu(1)), pages(3));
  destroy(std::move(others));
}

TEST_F(ChunkCacheTest, GivesUpNoMoreThanMakesTheRoom) {
  for (const int size : {1, 1, 4, 3}) put(gpu(0), size);
  const auto given_for = [&](int size_pages) {
    ChunkCache::Surplus given = cache_.take_room(gpu(0), pages(size_pages));
    const std::uint64_t size_bytes = given.size_bytes;
    destroy(std::move(given));
    return size_bytes / rig_.page();
  };
  EXPECT_EQ(given_for(2), 3u) << "the smallest that is as large";
  EXPECT_EQ(given_for(5), 5u) << "none is as large alone: the largest, and one more";
  EXPECT_EQ(given_for(1), 1u);
  EXPECT_EQ(given_for(1), 0u) << "there is nothing any more";
  for (const int size : {2, 3}) put(gpu(0), size);
  EXPECT_EQ(given_for(2), 2u) << "the one that is just as large";
  EXPECT_EQ(given_for(3), 3u);
  EXPECT_EQ(cache_.cached_bytes(gpu(0)), 0u);
  EXPECT_TRUE(cache_.take_room(gpu(1), pages(1)).empty());
}

TEST_F(ChunkCacheTest, SaysWhenItIsOverTheBudget) {
  EXPECT_FALSE(cache_.over_budget(host(0)));
  for (int i = 0; i < 4; ++i) put(host(0), 1);
  EXPECT_FALSE(cache_.over_budget(host(0)));
  put(host(0), 1);
  EXPECT_TRUE(cache_.over_budget(host(0)));
  cache_.reserve_budget(host(0), pages(1), 1);
  EXPECT_FALSE(cache_.over_budget(host(0)));
}

TEST_F(ChunkCacheTest, GivesAFreedAllocationOfJustTheGeometry) {
  const auto allocation = freed(gpu(0), 5, 2);
  const Geometry geometry = allocation->geometry();
  cache_.put_allocation(gpu(0), allocation);
  EXPECT_EQ(rig_.account(gpu(0)).cached_bytes, geometry.size_bytes());
  EXPECT_EQ(cache_.take_allocation(gpu(1), geometry), nullptr);
  Geometry longer = geometry;
  ++longer.slots;
  EXPECT_EQ(cache_.take_allocation(gpu(0), longer), nullptr);
  EXPECT_EQ(cache_.take_allocation(gpu(0), geometry), allocation);
  EXPECT_EQ(cache_.take_allocation(gpu(0), geometry), nullptr);
  for (Chunk& chunk : MemoryRig::take_apart(*allocation)) drop(std::move(chunk));
}

TEST_F(ChunkCacheTest, CountsTheSlotsOfFreedAllocations) {
  EXPECT_EQ(cache_.count_with_slots(gpu(0), pages(2)), 0u);
  put(gpu(0), 2);
  for (int i = 0; i < 2; ++i) {
    cache_.put_allocation(gpu(0), freed(gpu(0), 5, 2));  // Slots of 2, 2 and 1 pages.
  }
  EXPECT_EQ(cache_.count_with_slots(gpu(0), pages(2)), 5u);
  EXPECT_EQ(cache_.count_with_slots(gpu(0), pages(1)), 2u);
  EXPECT_EQ(cache_.count_with_slots(gpu(0), pages(4)), 0u);
  EXPECT_EQ(cache_.count_with_slots(gpu(1), pages(2)), 0u);
}

TEST_F(ChunkCacheTest, CountsHowOftenAPlaceWasEmptied) {
  const std::uint64_t before = cache_.times_emptied(gpu(0));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(cache_.take_all(gpu(0)).empty());
  cache_.take_all(gpu(1));
  EXPECT_EQ(cache_.times_emptied(gpu(0)), before + 2);
}

TEST_F(ChunkCacheTest, FindsAnAllocationThatHasASlotOfTheSize) {
  const auto allocation = freed(gpu(0), 5, 2);  // Slots of 2, 2 and 1 pages.
  const auto give_back = [&] { cache_.put_allocation(gpu(0), allocation); };
  give_back();
  EXPECT_EQ(cache_.take_allocation_with(gpu(0), pages(3)), nullptr);
  EXPECT_EQ(cache_.take_allocation_with(gpu(1), pages(2)), nullptr);
  EXPECT_EQ(cache_.take_allocation_with(gpu(0), pages(2)), allocation);
  give_back();
  EXPECT_EQ(cache_.take_allocation_with(gpu(0), pages(1)), allocation) << "the tail";
  for (Chunk& chunk : MemoryRig::take_apart(*allocation)) drop(std::move(chunk));
}

TEST_F(ChunkCacheTest, DoesNotTakeATailForAWholeSlot) {
  // A single slot, which has the tail size.
  Geometry single{pages(4), pages(2), 1};
  EXPECT_EQ(single.size_bytes(), pages(2));
  const auto allocation = freed(gpu(0), 2, 4);
  ASSERT_EQ(allocation->geometry(), single);
  cache_.put_allocation(gpu(0), allocation);
  EXPECT_EQ(cache_.take_allocation_with(gpu(0), pages(4)), nullptr);
  EXPECT_EQ(cache_.take_allocation_with(gpu(0), pages(2)), allocation);
  for (Chunk& chunk : MemoryRig::take_apart(*allocation)) drop(std::move(chunk));
}

}  // namespace
}  // namespace vma
