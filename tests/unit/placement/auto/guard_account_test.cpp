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
    account_.moved(account_.balance() + seconds);
    account_.judge(now);
  }

  /// As much use as makes all of the start available, and what it allows besides taken again.
  void begin() {
    account_.used(20, 0);
    account_.moved(0.2);
  }

  // A second at first, and a hundredth of all use.
  const GuardAccount::Limits limits_{1, 0.01, 10s, 2s, 12s};
  GuardAccount account_{limits_};
};

TEST_F(GuardAccountTest, ShortProgramsMayLoseLittle) {
  EXPECT_TRUE(account_.affords(0)) << "one move";
  EXPECT_FALSE(account_.affords(1e-6));
  account_.used(10, 0);
  EXPECT_NEAR(account_.balance(), 0.6, 1e-9) << "six hundredths";
  account_.used(90, 0);
  EXPECT_NEAR(account_.balance(), 2, 1e-9) << "the start, and a hundredth";
}

TEST_F(GuardAccountTest, MovesAreMadeWhileTheyCanBePaid) {
  begin();
  EXPECT_TRUE(account_.follows());
  EXPECT_TRUE(account_.affords(0.9));
  EXPECT_FALSE(account_.affords(1.1)) << "what is under way takes all of it";
  account_.moved(0.5);
  EXPECT_FALSE(account_.affords(0.6));
  account_.used(10, 2);
  EXPECT_NEAR(account_.balance(), 2.6, 1e-9);
}

TEST_F(GuardAccountTest, StopsWhenItIsOverdrawn) {
  begin();
  account_.moved(1);
  account_.judge(1s);
  EXPECT_TRUE(account_.follows()) << "zero is not overdrawn";
  account_.used(10, -0.2);  // Of which the allowance gives back half.
  EXPECT_NEAR(account_.balance(), -0.1, 1e-9);
  account_.judge(1s);
  EXPECT_FALSE(account_.follows());
  EXPECT_FALSE(account_.affords(0));
}

// Although the balance is far below zero: moves that have not paid may pay now. 150 s of use in the
// back-off allow 1.5 s.
TEST_F(GuardAccountTest, TriesAgainAfterTheBackOffForWhatTheLoadAllows) {
  account_.used(1000, -10);
  overdraw(10s, 5);
  account_.used(150, 0);
  account_.judge(11999ms);
  EXPECT_FALSE(account_.follows()) << "the back-off has not ended";
  account_.judge(12s);
  EXPECT_TRUE(account_.affords(1.49));
  EXPECT_FALSE(account_.affords(1.51)) << "what was used before it stopped does not count";
  account_.moved(1.51);
  account_.judge(12s);
  EXPECT_FALSE(account_.follows());
}

// Two GPUs are busy, and each move costs 10 ms and is of no use.
TEST_F(GuardAccountTest, MovesThatNeverPayCostTheAllowance) {
  double lost = 0, used = 0;
  for (Time now = 0s; now < 600s; now += 10ms) {
    account_.used(0.02, 0);
    used += 0.02;
    if (account_.affords(0)) {
      account_.moved(0.01);
      lost += 0.01;
    }
    account_.judge(now);
  }
  EXPECT_LE(lost, limits_.start + limits_.allowance * used + 0.1);
  EXPECT_GE(lost, limits_.start + limits_.allowance * used / 2) << "it is tried all the time";
}

TEST_F(GuardAccountTest, TheBackOffDoublesUpToItsMaximumUntilMovesHaveEarned) {
  begin();
  Time now = 0s;
  for (const Time expected : {2s, 4s, 8s, 12s, 12s}) {
    overdraw(now);
    account_.used(100, 0);
    account_.judge(now + expected - 1ms);
    EXPECT_FALSE(account_.follows()) << expected.count();
    account_.judge(now += expected);
    EXPECT_TRUE(account_.follows()) << expected.count();
  }
  account_.used(1000, 0.9);
  account_.judge(now);
  EXPECT_EQ(account_.back_off(), 12s) << "what is allowed is not earned";
  account_.used(0, 0.2);
  account_.judge(now);
  EXPECT_EQ(account_.back_off(), 2s);
}

// What is above the start fades by half in ten seconds; what is below does not fade.
TEST_F(GuardAccountTest, OldEarningsFade) {
  begin();
  account_.judge(0s);
  account_.used(0, 8);
  account_.judge(10s);
  EXPECT_NEAR(account_.balance(), 5, 1e-9);
  account_.moved(4.5);
  account_.judge(20s);
  EXPECT_NEAR(account_.balance(), 0.5, 1e-9);
}

}  // namespace
}  // namespace v1
}  // namespace vma
