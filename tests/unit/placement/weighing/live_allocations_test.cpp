// Goal: observations of an allocation count for exactly the request that it was made for. Method:
// books in which allocations come and go; the allocation of a request comes later, in another
// order, elsewhere, or not at all.
#include "placement/weighing/live_allocations.hpp"

#include "unit/placement/policies/policy_rig.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace vma {
inline namespace v1 {
namespace {

using namespace std::chrono_literals;

using Number = LiveAllocations::Number;
constexpr Number none = LiveAllocations::none;
constexpr std::uint64_t chunk = 64;
const PlaceId here = gpu_place(0), there = gpu_place(1);

class LiveAllocationsTest : public testing::Test {
 protected:
  LiveAllocationsTest()
      : tables_({{gpu(0), 1 << 20}, {gpu(1), 1 << 20}, {host(0), 1 << 20}},
                PolicyMachine::h200(2, 1 << 20, 1 << 20).costs) {
    tables_.set_now(1s);
  }

  Number ask(std::uint64_t bytes, PlaceId at = here, const std::string& tag = "") {
    LiveAllocations::Allocation allocation;
    allocation.bytes = bytes;
    allocation.chunk_bytes = chunk;
    allocation.born = allocation.last_use = tables_.now();
    return live_.add(allocation, tag, std::vector<PlaceId>(allocation.chunks(), at), view());
  }
  ChunkId come(std::uint64_t bytes, PlaceId at = here, const std::string& tag = "") {
    std::vector<ChunkTables::NewChunk> chunks;
    for (; bytes > 0; bytes -= chunks.back().bytes) chunks.push_back({std::min(bytes, chunk), at});
    return tables_.add(++last_, tag, chunks);
  }
  void go(ChunkId first, std::size_t chunks = 1) {
    tables_.remove(first, chunks);
    for (std::size_t i = 0; i < chunks; ++i) gone_.push_back(live_.gone(next(first, i)));
  }
  Number find(ChunkId at) { return live_.find(at, view()); }
  void tick() {
    live_.end_tick(view());
    tables_.clear_changed();
    tables_.set_now(tables_.now() + 10ms);
  }
  Snapshot view() const { return Snapshot(tables_); }

  ChunkTables tables_;
  LiveAllocations live_;
  std::vector<Number> gone_;
  std::uint32_t last_ = 0;
};

TEST_F(LiveAllocationsTest, EqualOnesOfOneTimeComeInTheOrderOfTheirRequests) {
  const std::vector<Number> asked{ask(chunk), ask(chunk), ask(chunk)};
  const std::vector<ChunkId> came{come(chunk), come(chunk), come(chunk)};
  EXPECT_EQ(find(came[1]), asked[1]);  // Whichever is used first.
  EXPECT_EQ(find(came[0]), asked[0]);
  EXPECT_EQ(find(came[2]), asked[2]);
}

TEST_F(LiveAllocationsTest, TheOrderIsThatOfTheAllocationsNotOfTheirRows) {
  const ChunkId hole = come(chunk);
  const Number first = ask(chunk), second = ask(chunk);
  const ChunkId came_first = come(chunk);
  go(hole);
  const ChunkId came_second = come(chunk);
  ASSERT_LT(came_second, came_first);
  EXPECT_EQ(find(came_second), second);
  EXPECT_EQ(find(came_first), first);
}

// The policy failed before its tick, and the list of changes has reached its old length again.
TEST_F(LiveAllocationsTest, WhatComesAfterATickWithoutItIsFoundByItsUse) {
  come(chunk);
  const Number asked = ask(chunk);
  tables_.clear_changed();
  const ChunkId came = come(chunk);
  ask(2 * chunk);
  EXPECT_EQ(find(came), asked);
}

TEST_F(LiveAllocationsTest, AllItsBytesCountAndNotItsFirstChunk) {
  const Number two = ask(2 * chunk), three = ask(3 * chunk), odd = ask(2 * chunk + 1);
  const ChunkId came_odd = come(2 * chunk + 1), came_three = come(3 * chunk);
  const ChunkId came_two = come(2 * chunk), came_four = come(4 * chunk);
  EXPECT_EQ(find(next(came_two)), two);
  EXPECT_EQ(find(next(came_three)), three);
  EXPECT_EQ(find(next(came_odd)), odd);
  EXPECT_EQ(find(came_four), none);
}

TEST_F(LiveAllocationsTest, ItsTagCounts) {
  const Number weights = ask(chunk, here, "weights"), cache = ask(chunk, here, "cache");
  const ChunkId came_cache = come(chunk, here, "cache"), came = come(chunk);
  const ChunkId came_weights = come(chunk, here, "weights");
  EXPECT_EQ(find(came_weights), weights);
  EXPECT_EQ(find(came_cache), cache);
  EXPECT_EQ(find(came), none);
}

// Several threads request at a time, and the first request is served last.
TEST_F(LiveAllocationsTest, OfEqualOnesThatLieApartEachHasItsOwn) {
  const Number first = ask(chunk, here), second = ask(chunk, there);
  const ChunkId came_second = come(chunk, there), came_first = come(chunk, here);
  EXPECT_EQ(find(came_first), first);
  EXPECT_EQ(find(came_second), second);
}

TEST_F(LiveAllocationsTest, WhatTheProgramPlacesTakesNobodysRequest) {
  const Number asked = ask(chunk, here);
  const ChunkId placed = come(chunk, there), came = come(chunk, here);
  EXPECT_EQ(find(placed), none);
  EXPECT_EQ(find(came), asked);
  const Number later = ask(chunk, there);
  EXPECT_EQ(find(placed), none) << "it was there before";
  EXPECT_EQ(find(come(chunk, there)), later);
}

TEST_F(LiveAllocationsTest, WhatFoundNoRoomWhereItShouldLieIsFoundElsewhere) {
  const Number first = ask(2 * chunk, here), second = ask(2 * chunk, here);
  const ChunkId came_first = come(2 * chunk, there), came_second = come(2 * chunk, there);
  EXPECT_EQ(find(came_second), second);
  EXPECT_EQ(find(came_first), first);
}

TEST_F(LiveAllocationsTest, ARequestThatCameToNothingIsNobodys) {
  ask(chunk);  // There was no memory for it.
  const Number second = ask(chunk);
  EXPECT_EQ(find(come(chunk)), second);
}

TEST_F(LiveAllocationsTest, NothingIsOfARequestThatCameAfterIt) {
  const ChunkId before = come(chunk);
  tables_.set_now(tables_.now() + 1ms);
  ask(chunk);
  EXPECT_EQ(find(before), none);
}

// An allocation that lives only between two looks at the uses is noticed by the next request alone.
// The next allocation reuses its row, which is already in the list of changes.
TEST_F(LiveAllocationsTest, WhatNobodyUsedIsKnownByTheNextRequest) {
  const Number lasting = ask(chunk);
  const ChunkId came_lasting = come(chunk);
  const Number first = ask(chunk);
  const ChunkId came_first = come(chunk);
  const Number second = ask(chunk);
  go(came_first);
  const ChunkId came_second = come(chunk);
  ASSERT_EQ(came_second, came_first);
  const Number third = ask(chunk);
  EXPECT_EQ(gone_, std::vector{first});
  EXPECT_EQ(find(came_second), second);
  EXPECT_EQ(find(come(chunk)), third);
  EXPECT_EQ(find(came_lasting), lasting);
}

TEST_F(LiveAllocationsTest, WhatCameAndWentBetweenTwoRequestsLeavesItsOwnBehind) {
  const Number first = ask(chunk);
  go(come(chunk));
  const Number second = ask(chunk);
  EXPECT_EQ(find(come(chunk)), second);
  std::vector<Time> waiting;
  live_.unseen(tables_.now() + 1ns, [&](const auto& allocation) {
    EXPECT_EQ(&allocation, &live_[first]);
    waiting.push_back(allocation.born);
  });
  EXPECT_EQ(waiting.size(), 1u);
}

TEST_F(LiveAllocationsTest, IsKnownFromItsFirstSightToItsEnd) {
  const Number asked = ask(3 * chunk);
  const ChunkId came = come(3 * chunk);
  tick();
  tick();
  EXPECT_EQ(find(next(came, 2)), asked);
  EXPECT_EQ(live_[asked].first, index(came));
  EXPECT_TRUE(live_[asked].lives);
  go(came, 3);
  EXPECT_EQ(gone_, (std::vector{asked, none, none}));
  live_.forget(asked);
  EXPECT_FALSE(live_[asked].lives);
  EXPECT_EQ(find(come(3 * chunk)), none);
}

// A policy that takes over while memory is in use.
TEST_F(LiveAllocationsTest, WhatWasThereBeforeItIsOfNone) {
  const ChunkId before = come(2 * chunk);
  tables_.clear_changed();
  tables_.set_now(tables_.now() + 1s);
  const Number asked = ask(2 * chunk);
  tables_.used(next(before), here, 1, 0);
  EXPECT_EQ(find(next(before)), none);
  const ChunkId came = come(2 * chunk);
  EXPECT_EQ(find(next(came)), asked);
  EXPECT_EQ(find(before), none);
}

TEST_F(LiveAllocationsTest, ARequestIsForgottenAfterItsTime) {
  const Number old = ask(chunk);
  tick();
  const Time then = tables_.now();
  const Number recent = ask(chunk);
  live_.drop_unseen(then);
  EXPECT_FALSE(live_[old].lives);
  EXPECT_TRUE(live_[recent].lives);
  const ChunkId first = come(chunk), second = come(chunk);
  EXPECT_EQ(find(second), recent);
  EXPECT_EQ(find(first), none);
}

}  // namespace
}  // namespace v1
}  // namespace vma
