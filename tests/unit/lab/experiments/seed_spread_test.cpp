// Goal: means over seeds and their confidence intervals are right. The quantiles of Student's
// distribution come from the usual tables: t(0.975) is 12.706 with 1 degree of freedom, 2.776 with
// 4.

#include "lab/experiments/results_table.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

namespace vma {
namespace {

TEST(SeedSpread, OfFiveValues) {
  const SeedSpread spread = spread_of(std::array{2.0, 4.0, 4.0, 5.0, 5.0});
  EXPECT_EQ(spread.count, 5u);
  EXPECT_DOUBLE_EQ(spread.mean.value(), 4);
  EXPECT_DOUBLE_EQ(spread.standard_deviation.value(), std::sqrt(6.0 / 4));
  EXPECT_NEAR(spread.half_width.value(), 2.776445 * std::sqrt(1.5 / 5), 1e-6);
}

TEST(SeedSpread, OfTwoValuesItIsWide) {
  const SeedSpread spread = spread_of(std::array{1.0, 3.0});
  EXPECT_DOUBLE_EQ(spread.mean.value(), 2);
  EXPECT_NEAR(spread.half_width.value(), 12.7062047, 1e-6);
}

TEST(SeedSpread, OfEqualValuesThereIsNone) {
  const SeedSpread spread = spread_of(std::array{7.0, 7.0, 7.0});
  EXPECT_EQ(spread.mean, 7);
  EXPECT_EQ(spread.standard_deviation, 0);
  EXPECT_EQ(spread.half_width, 0);
}

TEST(SeedSpread, OfOneValueNothingIsKnownButItself) {
  EXPECT_EQ(spread_of(std::array{3.0}), (SeedSpread{1, 3.0, std::nullopt, std::nullopt}));
  EXPECT_EQ(spread_of({}), SeedSpread{});
}

TEST(SeedSummary, HasALineForAllSeedsOfOneThing) {
  SeedSummary summary;
  summary.add({"m", "t", "first", "hash"}, {1.0, 2.0, std::nullopt, 0.0, 10.0, std::nullopt});
  summary.add({"m", "t", "a second", "hash"}, {8.0, 2.0, 0.5, 0.0, 10.0, 4.0});
  summary.add({"m", "t", "first", "hash"}, {3.0, 2.0, std::nullopt, 0.0, 10.0, 6.5});
  const auto lines = summary.lines();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].size(), 23u);
  EXPECT_EQ(lines[0][5], "cost_s_mean");
  EXPECT_EQ(lines[0][6], "cost_s_half_width");
  EXPECT_EQ(lines[0][22], "rest_s_n");
  const std::vector<std::string> first(lines[1].begin(), lines[1].begin() + 6);
  EXPECT_EQ(first, (std::vector<std::string>{"m", "t", "first", "hash", "2", "2"}));
  EXPECT_NEAR(std::stod(lines[1][6]), 12.7062047, 1e-6);
  EXPECT_EQ(std::vector(lines[1].begin() + 7, lines[1].end()),
            (std::vector<std::string>{"2", "2", "0", "2", "", "", "0", "0", "0", "2", "10", "0",
                                      "2", "6.5", "", "1"}));
  EXPECT_EQ(lines[2][2], "a second");
  EXPECT_EQ(lines[2][4], "1");
  EXPECT_EQ(lines[2][6], "");  // One seed says nothing about the spread.
}

}  // namespace
}  // namespace vma
