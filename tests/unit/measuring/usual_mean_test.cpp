// Goal: the usual mean is the mean of the typical values; a few delayed ones do not distort it.
// Method: hand-computed cases.
#include "measuring/live_stops.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

TEST(UsualMean, IsTheMeanOfAllThatAreAlike) {
  EXPECT_EQ(usual_mean({Time(7)}), Time(7));
  EXPECT_EQ(usual_mean({Time(100), Time(100), Time(190)}), Time(130)) << "no median";
  EXPECT_EQ(usual_mean({Time(300), Time(100), Time(100)}), Time(166)) << "thrice is in it";
}

TEST(UsualMean, LeavesOutWhatWasHeldUp) {
  EXPECT_EQ(usual_mean({Time(9'000), Time(100), Time(120), Time(140)}), Time(120));
  EXPECT_EQ(usual_mean({Time(0), Time(0), Time(5)}), Time(0));
}

}  // namespace
}  // namespace vma
