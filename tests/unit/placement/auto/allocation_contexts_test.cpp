// Goal: the expectation for a request is the outcome of the last request that followed the same
// requests. Method: requests told apart by their size; each expected lifetime identifies its
// source.
#include "placement/weighing/live_allocations.hpp"

#include <gtest/gtest.h>

namespace vma {
inline namespace v1 {
namespace {

using namespace std::chrono_literals;

class AllocationContextsTest : public testing::Test {
 protected:
  AllocationContexts::Keys see(std::uint64_t bytes, std::size_t device = 0,
                               std::string_view tag = "") {
    return contexts_.see({bytes, bytes, PlaceId{static_cast<std::uint8_t>(device)}, tag});
  }
  void live(std::uint64_t bytes, double life_s) { contexts_.ended(see(bytes), {life_s, 1}); }
  /// The expected life of a new request, or -1. The query itself records the request.
  double life(std::uint64_t bytes) {
    const auto expected = contexts_.expected(see(bytes), 10s);
    return expected ? expected->life_s : -1;
  }
  AllocationContexts contexts_;
};

TEST_F(AllocationContextsTest, KnowNothingOfWhatIsNew) {
  live(1, 5);
  EXPECT_EQ(life(2), -1);
  EXPECT_EQ(life(1), 5);
}

TEST_F(AllocationContextsTest, TellDevicesAndTagsApart) {
  contexts_.ended(see(1, 0, "a"), {5, 1});
  EXPECT_FALSE(contexts_.expected(see(1, 1, "a"), 10s));
  EXPECT_FALSE(contexts_.expected(see(1, 0, "b"), 10s));
  EXPECT_TRUE(contexts_.expected(see(1, 0, "a"), 10s));
}

// The request of 9 bytes has a long life after 1, 2, 3 but not after 4, 5, 6.
TEST_F(AllocationContextsTest, TheLongerContextCounts) {
  for (int round = 0; round < 2; ++round) {
    for (const std::uint64_t bytes : {1, 2, 3}) live(bytes, 0.5);
    live(9, 100);
    for (const std::uint64_t bytes : {4, 5, 6}) live(bytes, 0.5);
    live(9, 1);
  }
  for (const std::uint64_t bytes : {1, 2, 3}) live(bytes, 0.5);
  EXPECT_EQ(life(9), 100);
  for (const std::uint64_t bytes : {4, 5, 6}) live(bytes, 0.5);
  EXPECT_EQ(life(9), 1);
}

TEST_F(AllocationContextsTest, WhatStillLivesIsExpectedToLiveLonger) {
  contexts_.begun(see(1), 4s);
  const auto expected = contexts_.expected(see(1), 10s);
  ASSERT_TRUE(expected);
  EXPECT_DOUBLE_EQ(expected->life_s, 12);
  EXPECT_DOUBLE_EQ(expected->passes_s, 2.0 / 6);
}

// A request is in six contexts, so two generations of 65 536 hold at most 21 846 requests.
TEST_F(AllocationContextsTest, TheOldestAreForgotten) {
  live(1, 5);
  for (std::uint64_t bytes = 2; bytes < 25'000; ++bytes) live(bytes, 1);
  EXPECT_EQ(life(1), -1);
  EXPECT_EQ(life(24'999), 1);
}

}  // namespace
}  // namespace v1
}  // namespace vma
