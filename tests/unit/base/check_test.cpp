// Goal: a failed check prints its condition, reason and place and ends the process; the last words
// run once before that. Method: death tests.
#include "base/check.hpp"

#include <gtest/gtest.h>

#include <cstdio>

namespace vma {
namespace {

class CheckDeathTest : public testing::Test {
 protected:
  CheckDeathTest() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
  ~CheckDeathTest() override { set_last_words(nullptr); }
};

void say() noexcept {
  std::fputs("the last words\n", stderr);
}

TEST_F(CheckDeathTest, NamesConditionReasonAndPlace) {
  const int two = 2;
  EXPECT_DEATH(VMART_CHECK(two == 3, "sums are kept"),
               "check_test.cpp:[0-9]+: check failed: two == 3 .sums are kept.");
}

TEST_F(CheckDeathTest, SpeaksTheLastWordsFirst) {
  EXPECT_DEATH(
      {
        set_last_words(&say);
        VMART_CHECK(false, "it ends here");
      },
      "the last words\n.*check failed: false");
}

TEST_F(CheckDeathTest, DoesNotSpeakAgainWhenTheLastWordsFail) {
  EXPECT_DEATH(
      {
        set_last_words([]() noexcept {
          std::fputs("spoken;", stderr);
          VMART_CHECK(false, "within the last words");
        });
        VMART_CHECK(false, "the first");
      },
      "^spoken;vmart: .*within the last words");
}

TEST_F(CheckDeathTest, LetsPassWhatHolds) {
  set_last_words(&say);
  VMART_CHECK(1 + 1 == 2, "sums are kept");
  SUCCEED();
}

}  // namespace
}  // namespace vma
