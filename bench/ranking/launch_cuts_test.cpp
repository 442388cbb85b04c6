// However an access is split, its launches together read what the access reads.

#include "bench/ranking/launch_cuts.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

std::uint64_t bytes_read(const std::vector<LaunchCut>& cuts) {
  std::uint64_t bytes = 0;
  for (const LaunchCut& cut : cuts) bytes += cut.bytes * cut.passes;
  return bytes;
}

TEST(LaunchCuts, AreOneLaunchWhereThatIsEnough) {
  EXPECT_EQ(cut_launches(100, 50, 1, 50), (std::vector<LaunchCut>{{100, 50, 1}}));
  EXPECT_EQ(cut_launches(0, 50, 4, 200), (std::vector<LaunchCut>{{0, 50, 4}}));
}

TEST(LaunchCuts, CutRangesAndPasses) {
  EXPECT_EQ(
      cut_launches(10, 120, 2, 50),
      (std::vector<LaunchCut>{{10, 50, 1}, {10, 50, 1}, {60, 50, 1}, {60, 50, 1}, {110, 20, 2}}));
  EXPECT_EQ(cut_launches(0, 30, 5, 70),
            (std::vector<LaunchCut>{{0, 30, 2}, {0, 30, 2}, {0, 30, 1}}));
}

TEST(LaunchCuts, ReadEachByteAsOftenAsAsked) {
  for (const std::uint64_t launch : {1u, 7u, 64u, 1000u})
    for (const double passes : {1.0, 2.0, 3.0, 17.0})
      EXPECT_EQ(bytes_read(cut_launches(5, 129, passes, launch)),
                129 * static_cast<std::uint64_t>(passes));
}

TEST(LaunchCuts, ReadAtLeastOnceAndWholePasses) {
  EXPECT_EQ(bytes_read(cut_launches(0, 10, 0.2, 100)), 10u);
  EXPECT_EQ(bytes_read(cut_launches(0, 10, 2.6, 100)), 30u);
}

}  // namespace
}  // namespace vma
