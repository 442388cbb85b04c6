// Goal: a median is the middle of the sorted values. Method: hand-computed cases for both types
// used.
#include "base/vectors.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace vma {
namespace {

using std::chrono::nanoseconds;

TEST(Median, IsTheMiddleOne) {
  EXPECT_EQ(median(std::vector{3.0, 1.0, 2.0}), 2.0);
  EXPECT_EQ(median(std::vector{nanoseconds(90), nanoseconds(1), nanoseconds(2)}), nanoseconds(2));
  EXPECT_EQ(median(std::vector{7.0}), 7.0);
}

TEST(Median, OfAnEvenNumberIsBetweenTheTwo) {
  EXPECT_EQ(median(std::vector{4.0, 3.0, 1.0, 2.0}), 2.5);
  EXPECT_EQ(median(std::vector{nanoseconds(40), nanoseconds(10)}), nanoseconds(25));
}

TEST(MedianDeathTest, IsOfSomething) {
  EXPECT_DEATH(median(std::vector<double>()), "a median is of something");
}

}  // namespace
}  // namespace vma
