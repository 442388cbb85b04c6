// Goal: growth counts denser classes within the length of a life, and is forgotten afterwards.
// Method: bytes that come and go at times given by the test; a window of one second.
#include "lab/policies/demand_growth.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace vma {
inline namespace v1 {
namespace {

using namespace std::chrono_literals;

constexpr double long_life = 100;

class DemandGrowthTest : public testing::Test {
 protected:
  DemandGrowth growth_{1s};
};

TEST(DemandGrowthClass, IsHalfAsDenseAsTheOneBefore) {
  EXPECT_EQ(DemandGrowth::class_of(4096), 0u);
  EXPECT_EQ(DemandGrowth::class_of(1e12), 0u);
  EXPECT_EQ(DemandGrowth::class_of(4), 10u);
  EXPECT_EQ(DemandGrowth::class_of(2), 11u);
  EXPECT_EQ(DemandGrowth::class_of(1e-9), DemandGrowth::classes - 1);
  for (const double nothing : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_EQ(DemandGrowth::class_of(nothing), DemandGrowth::classes - 1);
}

TEST_F(DemandGrowthTest, CountsWhatIsDenserOnly) {
  growth_.add(5, 100, 1ms);
  growth_.add(7, 1000, 2ms);
  EXPECT_EQ(growth_.most(5, long_life), 0);
  EXPECT_EQ(growth_.most(6, long_life), 100);
  EXPECT_EQ(growth_.most(7, long_life), 100);
  EXPECT_EQ(growth_.most(8, long_life), 1100);
  EXPECT_EQ(growth_.most(0, long_life), 0);
}

// Repeated allocations and frees do not add up: only one is there at a time.
TEST_F(DemandGrowthTest, IsTheMostAtOneTime) {
  for (int i = 0; i < 10; ++i) {
    growth_.add(5, 100, i * 20ms);
    growth_.add(5, -100, i * 20ms + 10ms);
  }
  EXPECT_EQ(growth_.most(6, long_life), 100);
}

// 100 bytes more every 100 ms: a short life sees one step, a long one all of them.
TEST_F(DemandGrowthTest, IsLessWithinAShorterLife) {
  for (int i = 0; i < 8; ++i) growth_.add(5, 100, i * 100ms);
  EXPECT_EQ(growth_.most(6, 0.01), 100);
  EXPECT_EQ(growth_.most(6, long_life), 800);
}

// The peak was 100: with 60 present, 40 more may come.
TEST_F(DemandGrowthTest, MoreIsWhatIsLackingToThePeak) {
  growth_.add(5, 100, 10ms);
  growth_.add(5, -100, 20ms);
  EXPECT_EQ(growth_.more(6, long_life), 100);
  growth_.add(5, 60, 30ms);
  EXPECT_EQ(growth_.most(6, long_life), 100);
  EXPECT_EQ(growth_.more(6, long_life), 40);
}

TEST_F(DemandGrowthTest, IsForgottenAfterTwoWindows) {
  growth_.add(5, 100, 10ms);
  growth_.add(5, -100, 20ms);
  growth_.pass(1500ms);
  EXPECT_EQ(growth_.most(6, long_life), 100);
  growth_.pass(2500ms);
  EXPECT_EQ(growth_.most(6, long_life), 0);
}

TEST_F(DemandGrowthTest, APauseOfManyWindowsForgetsAtOnce) {
  growth_.add(5, 100, 10ms);
  growth_.pass(1h);
  EXPECT_EQ(growth_.most(6, long_life), 0);
}

}  // namespace
}  // namespace v1
}  // namespace vma
