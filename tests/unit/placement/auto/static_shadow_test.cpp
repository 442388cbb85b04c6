// Goal: the shadow says where each chunk would lie by first touch, had no policy moved anything.
// Method: books of two GPUs with room for four chunks each; moves by a policy and by others.
#include "placement/auto/guard_account.hpp"

#include "placement/books/chunk_tables.hpp"
#include "unit/placement/policies/policy_rig.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace vma {
inline namespace v1 {
namespace {

using namespace std::chrono_literals;

class StaticShadowTest : public testing::Test {
 protected:
  StaticShadowTest() { books_.set_now(1s); }

  /// The policy is asked for one chunk for each of `places`, and puts them there.
  ChunkId request(const std::vector<PlaceId>& places, PlaceId device) {
    shadow_.asked({places.size() * small_chunk, small_chunk, device, ""}, places, view());
    return add(places);
  }
  ChunkId add(const std::vector<PlaceId>& places) {
    std::vector<ChunkTables::NewChunk> chunks;
    for (const PlaceId at : places) chunks.push_back({small_chunk, at});
    return books_.add(++last_, "", chunks);
  }
  void move(ChunkId chunk, PlaceId to, bool by_policy) {
    const PlaceId from = view().chunk(chunk).at;
    books_.moved(chunk, to);
    if (by_policy) shadow_.moved_by_policy({chunk, from, to, true, 1ms, 1ms});
  }
  void tick() {
    shadow_.end_tick(view());
    books_.clear_changed();
    books_.set_now(books_.now() + 10ms);
  }
  std::vector<std::size_t> at(ChunkId first, std::size_t chunks) {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < chunks; ++i)
      places.push_back(index(shadow_.at(next(first, i), view())));
    return places;
  }
  Snapshot view() const { return Snapshot(books_); }

  const PlaceId a_ = gpu_place(0), b_ = gpu_place(1), host_ = gpu_place(2);
  const PolicyMachine machine_ = PolicyMachine::h200(2, 4 * small_chunk, 100 * small_chunk);
  ChunkTables books_{machine_.places(), machine_.costs};
  StaticShadow shadow_;
  std::uint32_t last_ = 0;
};

TEST_F(StaticShadowTest, SpillsInTheOrderOfTheDeviceThatAsked) {
  const ChunkId first = request({host_, host_, host_, host_, host_, host_}, a_);
  EXPECT_EQ(at(first, 6), (std::vector<std::size_t>{0, 0, 0, 0, 1, 1}));
  const ChunkId second = request({b_, b_, b_}, b_);
  EXPECT_EQ(at(second, 3), (std::vector<std::size_t>{1, 1, 2}));
}

// The policy moves three chunks out of A. What comes then finds room there, but not in the shadow.
TEST_F(StaticShadowTest, MovesOfThePolicyMakeNoRoomInIt) {
  const ChunkId first = request({a_, a_, a_, a_}, a_);
  tick();
  for (std::size_t i = 0; i < 3; ++i) move(next(first, i), host_, true);
  tick();
  EXPECT_EQ(at(first, 4), (std::vector<std::size_t>{0, 0, 0, 0}));
  const ChunkId second = request({a_}, a_);
  EXPECT_EQ(at(second, 1), std::vector<std::size_t>{1});
}

TEST_F(StaticShadowTest, MovesOfOthersAreMovesInItToo) {
  const ChunkId first = request({a_, a_, a_, a_}, a_);
  tick();
  move(first, host_, false);
  EXPECT_EQ(at(first, 4), (std::vector<std::size_t>{2, 0, 0, 0}));
  const ChunkId second = request({a_}, a_);
  EXPECT_EQ(at(second, 1), std::vector<std::size_t>{0});
}

TEST_F(StaticShadowTest, WhatTheProgramPlacesLiesThere) {
  const ChunkId first = add({host_, b_});
  EXPECT_EQ(at(first, 2), (std::vector<std::size_t>{2, 1}));
}

TEST_F(StaticShadowTest, WhatIsGoneMakesRoom) {
  const ChunkId first = request({a_, a_, a_, a_}, a_);
  tick();
  books_.remove(first, 4);
  for (std::size_t i = 0; i < 4; ++i) shadow_.gone(next(first, i));
  const ChunkId second = request({host_}, a_);
  EXPECT_EQ(at(second, 1), std::vector<std::size_t>{0});
}

// Requests of which nothing was seen yet come first, in their order.
TEST_F(StaticShadowTest, TakesRequestsInTheirOrder) {
  const ChunkId first = request({a_, a_, a_}, a_);
  const ChunkId second = request({a_, b_}, a_);
  EXPECT_EQ(at(second, 2), (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(at(first, 3), (std::vector<std::size_t>{0, 0, 0}));
}

}  // namespace
}  // namespace v1
}  // namespace vma
