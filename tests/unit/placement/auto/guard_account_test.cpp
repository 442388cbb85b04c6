// Goal: the guard stops moves that do not pay, tries again ever less often, and never loses more
// than it has. Method: accounts by hand.
#include "placement/auto/guard_account.hpp"

#include <gtest/gtest.h>

namespace vma {
inline namespace v1 {
namespace {

using namespace std::chrono_literals;

class GuardAccountTest : public testing::Test {
 protected:
  /// Overdraws it by `seconds` at `now`.
  void overdraw(Time now, double seconds = 0.01) {
    account_.moved(account_.balance() + seconds, false);
    account_.judge(now);
  }

  // A second at first, and of ten seconds of use a tenth.
  const GuardAccount::Limits limits_{1, 0.01, 10s, 2s, 12s};
  GuardAccount account_{limits_};
};

TEST_F(GuardAccountTest, MovesAreMadeWhileTheyCanBePaid) {
  EXPECT_TRUE(account_.follows());
  EXPECT_TRUE(account_.affords(0.9, false));
  EXPECT_FALSE(account_.affords(1, false)) << "what is under way takes all of it";
  account_.moved(0.5, false);
  EXPECT_FALSE(account_.affords(0.5, false));
  account_.used(10, 2, false);
  EXPECT_NEAR(account_.balance(), 2.5, 1e-9);
}

TEST_F(GuardAccountTest, StopsWhenItIsOverdrawn) {
  account_.moved(1, false);
  account_.judge(1s);
  EXPECT_TRUE(account_.follows()) << "zero is not overdrawn";
  account_.used(10, -0.2, false);  // Of which the allowance gives back half.
  EXPECT_NEAR(account_.balance(), -0.1, 1e-9);
  account_.judge(1s);
  EXPECT_FALSE(account_.follows());
  EXPECT_FALSE(account_.affords(0, false));
}

// The allowance fills the account from -0.01 to its start: 1.01 s are 101 s of use.
TEST_F(GuardAccountTest, FollowsAgainAfterTheBackOffOnceTheBalanceIsBack) {
  overdraw(10s);
  account_.used(100, 0, false);
  account_.judge(12s);
  EXPECT_FALSE(account_.follows());
  account_.used(2, 0, false);
  EXPECT_NEAR(account_.balance(), 1, 1e-9) << "the allowance fills it no further";
  account_.judge(11999ms);
  EXPECT_FALSE(account_.follows()) << "the back-off has not ended";
  account_.judge(12s);
  EXPECT_TRUE(account_.follows());
}

TEST_F(GuardAccountTest, TheBackOffDoublesUpToItsMaximumUntilMovesHaveEarned) {
  Time now = 0s;
  for (const Time expected : {2s, 4s, 8s, 12s, 12s}) {
    overdraw(now);
    account_.used(1000, 0, false);
    account_.judge(now + expected - 1ms);
    EXPECT_FALSE(account_.follows()) << expected.count();
    account_.judge(now += expected);
    EXPECT_TRUE(account_.follows()) << expected.count();
  }
  account_.used(10, 1.5, false);
  account_.judge(now);
  EXPECT_EQ(account_.back_off(), 2s);
}

// The sample may lose a quarter of the start in each back-off, and what it has earned.
TEST_F(GuardAccountTest, OnlyTheSampleMovesInTheBackOff) {
  overdraw(10s);
  EXPECT_TRUE(account_.affords(0.24, true));
  EXPECT_FALSE(account_.affords(0.25, true));
  account_.moved(0.2, true);
  EXPECT_FALSE(account_.affords(0.05, true));
  account_.used(10, 0.1, true);
  EXPECT_TRUE(account_.affords(0.1, true));
}

TEST_F(GuardAccountTest, ASampleThatEarnsEndsTheBackOff) {
  overdraw(10s, 5);
  account_.moved(0.2, true);
  account_.used(0, 0.19, true);
  account_.judge(12s);
  EXPECT_FALSE(account_.follows());
  account_.used(0, 0.02, true);
  account_.judge(12s);
  EXPECT_TRUE(account_.follows());
  EXPECT_EQ(account_.balance(), 1);
}

// What is above the start fades by half in ten seconds; what is below does not fade.
TEST_F(GuardAccountTest, OldEarningsFade) {
  account_.judge(0s);
  account_.used(0, 8, false);
  account_.judge(10s);
  EXPECT_NEAR(account_.balance(), 5, 1e-9);
  account_.moved(4.5, false);
  account_.judge(20s);
  EXPECT_NEAR(account_.balance(), 0.5, 1e-9);
}

}  // namespace
}  // namespace v1
}  // namespace vma
