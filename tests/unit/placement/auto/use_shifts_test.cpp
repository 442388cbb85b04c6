// Goal: `UseShifts` notices that the use of a chunk has shifted, and only that. Method: uses by
// hand on machines like H200s, where a byte costs ten times as much at a peer as at home.
#include "placement/auto/use_shifts.hpp"

#include "placement/books/chunk_tables.hpp"
#include "unit/placement/policies/policy_rig.hpp"

namespace vma {
inline namespace v1 {
namespace {

using namespace std::chrono_literals;

constexpr PlaceId a = gpu_place(0), b = gpu_place(1), c = gpu_place(2);

class UseShiftsTest : public testing::Test {
 protected:
  UseShiftsTest() {
    const ChunkTables::NewChunk chunk{small_chunk, a};
    for (int i = 0; i < 3; ++i) books_.add(static_cast<std::uint32_t>(i + 1), "", {&chunk, 1});
    books_.set_now(1s);
  }

  /// A use of so many passes, 10 ms after the last. True if a shift has ended with it.
  bool use(PlaceId device, double passes = 1, ChunkId chunk = ChunkId{0}) {
    books_.set_now(books_.now() + 10ms);
    return shifts_.note({chunk, device, passes * small_pass, 0}, Snapshot(books_), least_) !=
           nullptr;
  }
  bool lasting(ChunkId chunk = ChunkId{0}) const {
    return shifts_.lasting(chunk, least_) != nullptr;
  }

  const Time least_ = 200ms;
  const PolicyMachine machine_ = PolicyMachine::h200(3, 1 << 30, 1 << 30);
  ChunkTables books_{machine_.places(), machine_.costs};
  UseShifts shifts_{1.25};
};

TEST_F(UseShiftsTest, UseWhereAChunkLiesIsNotFollowed) {
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(use(a));
  EXPECT_TRUE(shifts_.empty());
}

TEST_F(UseShiftsTest, AShiftLastsFromItsFirstUseOn) {
  for (int i = 0; i <= 19; ++i) {
    use(b);
    EXPECT_FALSE(lasting()) << i;
  }
  use(b);
  ASSERT_TRUE(lasting());
  const UseShifts::Shift& shift = *shifts_.lasting(ChunkId{0}, least_);
  EXPECT_EQ(shift.begin, 1010ms);
  EXPECT_EQ(shift.length(), 200ms);
  ASSERT_EQ(shift.users.size(), 1u);
  EXPECT_EQ(shift.users[0].device, b);
  EXPECT_DOUBLE_EQ(shift.users[0].bytes, 21 * small_pass);
}

// A pass of B at A costs 1 / 0.39 units, and at home 1 / 3.8: a shift to B gains 2.24 with each of
// B's, and loses 2.94 with each of A's.
TEST_F(UseShiftsTest, AShiftEndsOnceItsUsersLostNothing) {
  for (int i = 0; i < 30; ++i) use(b);
  int back = 1;
  while (!use(a)) ++back;
  EXPECT_EQ(back, 23);
  EXPECT_TRUE(shifts_.empty());
  for (int i = 0; i < 30; ++i) use(b);
  for (int i = 0; i < 22; ++i) ASSERT_FALSE(use(a));
  EXPECT_EQ(shifts_.size(), 1u);
}

TEST_F(UseShiftsTest, AChangeBackCountsBeforeTheShiftEnds) {
  for (int i = 0; i < 30; ++i) use(b);
  ASSERT_TRUE(lasting());
  for (int i = 0; i < 6; ++i) use(a);  // A quarter of what was lost.
  EXPECT_FALSE(lasting());
  EXPECT_EQ(shifts_.size(), 1u);
}

TEST_F(UseShiftsTest, ThePeakTellsWhenUseWentBack) {
  for (int i = 0; i < 30; ++i) use(b);
  const Time peak = books_.now();
  const UseShifts::Shift* ended = nullptr;
  while (ended == nullptr) {
    books_.set_now(books_.now() + 10ms);
    ended = shifts_.note({ChunkId{0}, a, small_pass, 0}, Snapshot(books_), least_);
  }
  EXPECT_EQ(ended->peak, peak);
  EXPECT_EQ(ended->length(), books_.now() - 1010ms);
}

// B uses it in most of the time, A and C in the rest.
TEST_F(UseShiftsTest, SeveralGpusMayUseAChunkThatShifts) {
  for (int i = 0; i < 60; ++i) use(i % 8 == 1 ? a : i % 8 == 5 ? c : b);
  EXPECT_TRUE(lasting());
}

TEST_F(UseShiftsTest, AnEvenShareIsNoShift) {
  for (int i = 0; i < 500; ++i) {
    use(i % 2 == 0 ? b : a);
    ASSERT_FALSE(lasting()) << i;
  }
}

// Eight uses in 200 ms are less than three standard deviations of eight tosses of a coin.
TEST_F(UseShiftsTest, FewUsesAreNoShiftHoweverLongTheyTake) {
  for (int i = 0; i < 8; ++i) {
    books_.set_now(books_.now() + 40ms);
    use(b);
  }
  EXPECT_FALSE(lasting());
  for (int i = 0; i < 8; ++i) use(b);
  EXPECT_TRUE(lasting());
}

TEST_F(UseShiftsTest, AMoveEndsTheShift) {
  for (int i = 0; i < 30; ++i) use(b);
  books_.moved(ChunkId{0}, b);
  use(b);
  EXPECT_TRUE(shifts_.empty());
  books_.moved(ChunkId{0}, c);
  use(b);
  EXPECT_EQ(shifts_.size(), 1u);
  EXPECT_FALSE(lasting());
}

// A shift that is never followed does not outweigh one that comes later.
TEST_F(UseShiftsTest, ALongShiftForgets) {
  for (int i = 0; i < 10'000; ++i) use(b);
  ASSERT_TRUE(lasting());
  EXPECT_LE(shifts_.lasting(ChunkId{0}, least_)->length(), UseShifts::memory * least_);
  for (int i = 0; i < 30; ++i) use(a);
  EXPECT_FALSE(lasting());
}

TEST_F(UseShiftsTest, ForgetsAChunk) {
  for (int i = 0; i < 30; ++i) use(b);
  for (int i = 0; i < 30; ++i) use(b, 1, ChunkId{2});
  shifts_.forget(ChunkId{0});
  shifts_.forget(ChunkId{0});
  EXPECT_FALSE(lasting());
  EXPECT_TRUE(lasting(ChunkId{2}));
  EXPECT_EQ(shifts_.size(), 1u);
}

TEST_F(UseShiftsTest, WhatUsersCannotReachIsNoGoal) {
  books_.costs().access_rate(c, b) = 0;
  books_.costs().rank();
  for (int i = 0; i < 100; ++i) use(i % 10 == 0 ? c : b);
  EXPECT_FALSE(lasting());
}

// Old shifts give their place to new ones.
TEST(UseShifts, AreBounded) {
  std::vector<ChunkTables::NewChunk> chunks(UseShifts::shifts_max + 1, {1, a});
  std::vector<PlaceState> places(2);
  for (PlaceState& place : places) place.capacity_bytes = 1 << 30;
  MachineCosts costs(2, 2);
  for (const PlaceId device : {a, b}) {
    for (const PlaceId at : {a, b}) costs.access_rate(device, at) = device == at ? 10 : 1;
  }
  costs.rank();
  ChunkTables books(places, costs);
  books.add(1, "", chunks);
  books.set_now(1s);
  UseShifts shifts(1.25);
  const auto use = [&](std::size_t chunk) {
    shifts.note({ChunkId{static_cast<std::uint32_t>(chunk)}, b, 1, 0}, Snapshot(books), 200ms);
  };
  for (std::size_t i = 0; i < chunks.size(); ++i) use(i);
  EXPECT_EQ(shifts.size(), UseShifts::shifts_max);
  EXPECT_FALSE(shifts.follows(ChunkId{UseShifts::shifts_max}));
  books.set_now(books.now() + UseShifts::memory * Time(200ms) + 1ms);
  use(UseShifts::shifts_max);
  EXPECT_TRUE(shifts.follows(ChunkId{UseShifts::shifts_max}));
  EXPECT_EQ(shifts.size(), UseShifts::shifts_max);
}

}  // namespace
}  // namespace v1
}  // namespace vma
