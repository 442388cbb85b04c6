// Goal: predicted uses are in the order of their times and chunks, and none is erased in place of
// another. Method: uses in several blocks.
#include "placement/auto/use_rhythm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace vma {
inline namespace v1 {
namespace {

constexpr int uses = 1000;

UseOrder filled() {
  UseOrder order;
  for (int i = 0; i < uses; ++i)
    order.insert({.at = Time(i * 7919 % uses), .chunk = static_cast<ChunkId>(i)});
  return order;
}

std::vector<Time> times(const UseOrder& order) {
  std::vector<Time> found;
  order.nearest([&](const UseOrder::Use& use) {
    found.push_back(use.at);
    return true;
  });
  return found;
}

TEST(UseOrderTest, HoldsWhatWasInsertedAndNotErased) {
  UseOrder order = filled();
  for (int i = 0; i < uses; i += 2) order.erase(Time(i * 7919 % uses), static_cast<ChunkId>(i));
  const std::vector<Time> left = times(order);
  EXPECT_EQ(left.size(), uses / 2);
  EXPECT_TRUE(std::ranges::is_sorted(left));
}

TEST(UseOrderDeathTest, ErasesNothingElse) {
  UseOrder order = filled();
  EXPECT_DEATH(order.erase(Time(5), static_cast<ChunkId>(uses)), "a use that is erased is there");
  EXPECT_DEATH(order.erase(Time(uses), ChunkId{}), "a use that is erased is there");
}

}  // namespace
}  // namespace v1
}  // namespace vma
