// Goal: `FollowedShifts` learns from moves that followed a shift. Method: shifts, moves and uses by
// hand on machines like H200s.
#include "placement/auto/shift_watch.hpp"

#include "placement/books/chunk_tables.hpp"
#include "unit/placement/policies/policy_rig.hpp"

namespace vma {
inline namespace v1 {
namespace {

using namespace std::chrono_literals;

constexpr PlaceId a = gpu_place(0), b = gpu_place(1);
constexpr ChunkId chunk{0};

class FollowedShiftsTest : public testing::Test {
 protected:
  FollowedShiftsTest() {
    const ChunkTables::NewChunk its{small_chunk, a};
    books_.add(1, "", {&its, 1});
    books_.set_now(10s);
  }

  UseShifts::Shift shift(Time length) const {
    UseShifts::Shift shift;
    shift.chunk = chunk;
    shift.at = Snapshot(books_).chunk(chunk).at;
    shift.begin = shift.first = books_.now() - length;
    shift.last = books_.now();
    shift.users = {{shift.at == a ? b : a, small_pass}};
    return shift;
  }
  /// Its use has shifted for 250 ms, and it follows at a cost of that many seconds.
  void follow(double cost) {
    const UseShifts::Shift its = shift(250ms);
    const PlaceId to = its.users[0].device;
    followed_.propose(its, to, cost);
    followed_.moved({chunk, its.at, to, true, 1ms, 1ms}, books_.now());
    books_.moved(chunk, to);
  }
  void use(PlaceId device, double passes) {
    followed_.note({chunk, device, passes * small_pass, 0}, Snapshot(books_));
  }
  void pass(Time time) { books_.set_now(books_.now() + time); }
  Time judge() { return followed_.judge(chunk, books_.now()); }

  const PolicyMachine machine_ = PolicyMachine::h200(2, 1 << 30, 1 << 30);
  ChunkTables books_{machine_.places(), machine_.costs};
  FollowedShifts followed_{250ms, 4s};
};

// A pass saves 0.154 ms at home.
TEST_F(FollowedShiftsTest, AMoveThatSavedItsCostLeavesPatienceAsItIs) {
  follow(1e-3);
  for (int i = 0; i < 7; ++i) use(b, 1);
  EXPECT_EQ(judge(), 250ms);
}

TEST_F(FollowedShiftsTest, EachMoveThatDidNotDoublesPatience) {
  for (const Time patience : {500ms, 1000ms, 2000ms, 4000ms, 4000ms}) {
    follow(1e-3);
    use(Snapshot(books_).chunk(chunk).at, 6);
    EXPECT_EQ(judge(), patience);
    EXPECT_EQ(judge(), patience) << "it is judged once";
  }
  follow(1e-3);
  use(Snapshot(books_).chunk(chunk).at, 7);
  EXPECT_EQ(judge(), 2000ms);
}

TEST_F(FollowedShiftsTest, WhatOthersLoseCounts) {
  follow(1e-3);
  use(b, 20);
  use(a, 14);
  EXPECT_EQ(judge(), 500ms);
}

TEST_F(FollowedShiftsTest, PatienceIsForgottenInTime) {
  for (int i = 0; i < 3; ++i) {
    follow(1);
    judge();
  }
  EXPECT_EQ(followed_.patience(chunk, books_.now()), 2000ms);
  pass(FollowedShifts::forgiven_after - 1ns);
  EXPECT_EQ(followed_.patience(chunk, books_.now()), 2000ms);
  pass(1ns);
  EXPECT_EQ(followed_.patience(chunk, books_.now()), 1000ms);
  pass(10 * FollowedShifts::forgiven_after);
  EXPECT_EQ(followed_.patience(chunk, books_.now()), 250ms);
}

TEST_F(FollowedShiftsTest, AMoveThatWasNotMadeTeachesNothing) {
  followed_.propose(shift(250ms), b, 1);
  EXPECT_EQ(judge(), 250ms);
  followed_.moved({chunk, a, b, false, 0ms, 0ms}, books_.now());
  EXPECT_EQ(judge(), 250ms);
  followed_.moved({chunk, a, gpu_place(2), true, 0ms, 0ms}, books_.now());
  EXPECT_EQ(judge(), 250ms) << "another move";
}

// At first nothing is known: a shift goes on for as long again. Then it is known how long use
// stayed, and that the end of a shift is noticed as late as its beginning.
TEST_F(FollowedShiftsTest, ExpectsUseToStayAsLongAsBefore) {
  EXPECT_EQ(followed_.expected(shift(250ms)), 250ms);
  follow(1e-3);  // The use shifted 250 ms ago.
  pass(1350ms);
  EXPECT_EQ(followed_.expected(shift(600ms)), 0ms) << "it stayed for 1 s";
  EXPECT_EQ(followed_.expected(shift(500ms)), 100ms) << "for 1.1 s";
  EXPECT_EQ(followed_.expected(shift(250ms)), 250ms);
}

// It would be late at each change.
TEST_F(FollowedShiftsTest, DoesNotExpectToBeRightWhereUseStaysTooShortly) {
  follow(1e-3);
  pass(FollowedShifts::followed_least - 1ns);
  EXPECT_EQ(followed_.expected(shift(250ms)), 0ms);
  pass(1ns);
  EXPECT_EQ(followed_.expected(shift(250ms)), 250ms);
}

TEST_F(FollowedShiftsTest, AShiftTwiceAsLongAsTheStayBeforeIsNew) {
  follow(1e-3);
  pass(650ms);  // The use shifted 900 ms ago.
  EXPECT_EQ(followed_.expected(shift(599ms)), 0ms);
  EXPECT_EQ(followed_.expected(shift(600ms)), 600ms);
  UseShifts::Shift forgetful = shift(600ms);
  forgetful.begin += 300ms;
  EXPECT_EQ(followed_.expected(forgetful), 300ms) << "what it has forgotten is not repeated";
}

TEST_F(FollowedShiftsTest, UseThatComesBackSoonAlternatesForAsLongAgain) {
  EXPECT_FALSE(followed_.alternates(chunk, books_.now()));
  follow(1e-3);
  pass(500ms);
  EXPECT_FALSE(followed_.alternates(chunk, books_.now())) << "it has only gone";
  UseShifts::Shift ended = shift(300ms);  // Use had stayed for 450 ms.
  ended.peak = ended.last;
  followed_.went_back(ended);
  EXPECT_TRUE(followed_.alternates(chunk, books_.now()));
  pass(3 * 450ms - 1ns);
  EXPECT_TRUE(followed_.alternates(chunk, books_.now()));
  pass(1ns);
  EXPECT_FALSE(followed_.alternates(chunk, books_.now()));
}

TEST_F(FollowedShiftsTest, UseThatStaysLongDoesNotAlternate) {
  follow(1e-3);
  pass(FollowedShifts::followed_least - 250ms + 300ms);
  UseShifts::Shift ended = shift(300ms);
  ended.peak = ended.last;
  followed_.went_back(ended);
  EXPECT_FALSE(followed_.alternates(chunk, books_.now()));
}

// The averages contain what was before; these are the users since the shift.
TEST_F(FollowedShiftsTest, KnowsTheUsersSinceTheShiftUntilAveragesDo) {
  EXPECT_TRUE(followed_.users(chunk, Snapshot(books_)).empty());
  follow(1e-3);
  use(b, 2);
  use(a, 1);
  const auto users = followed_.users(chunk, Snapshot(books_));
  ASSERT_EQ(users.size(), 2u);
  EXPECT_DOUBLE_EQ(users[0].bytes, 3 * small_pass);
  EXPECT_DOUBLE_EQ(users[1].bytes, small_pass);
  pass(3999ms);
  EXPECT_FALSE(followed_.users(chunk, Snapshot(books_)).empty());
  pass(1ms);
  EXPECT_TRUE(followed_.users(chunk, Snapshot(books_)).empty());
}

TEST_F(FollowedShiftsTest, ForgetsAChunkThatTheProgramMoved) {
  follow(1e-3);
  books_.moved(chunk, gpu_place(2));
  EXPECT_TRUE(followed_.users(chunk, Snapshot(books_)).empty());
  use(b, 1000);
  EXPECT_EQ(judge(), 500ms) << "uses elsewhere are not savings of the move";
}

}  // namespace
}  // namespace v1
}  // namespace vma
