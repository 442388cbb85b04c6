// Goal: a policy that keeps failing in any of its entry points is replaced, and one that fails now
// and then is not.
#include "placement/deciding/policy_failures.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

using Replacement = PolicyFailures::Replacement;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(PolicyFailures, SomeInARowReplaceThePolicy) {
  PolicyFailures failures({3, 20, seconds(10)});
  EXPECT_EQ(failures.failed(PolicyEntry::tick, seconds(0)), Replacement::none);
  EXPECT_EQ(failures.failed(PolicyEntry::tick, seconds(1)), Replacement::none);
  EXPECT_EQ(failures.failed(PolicyEntry::tick, seconds(2)), Replacement::failed_in_a_row);
}

TEST(PolicyFailures, ASuccessCountsForItsOwnEntryPointOnly) {
  PolicyFailures failures({3, 20, seconds(10)});
  failures.failed(PolicyEntry::tick, seconds(0));
  failures.failed(PolicyEntry::tick, seconds(1));
  failures.succeeded(PolicyEntry::use);
  EXPECT_EQ(failures.failed(PolicyEntry::tick, seconds(2)), Replacement::failed_in_a_row);
  failures.succeeded(PolicyEntry::tick);
  EXPECT_EQ(failures.failed(PolicyEntry::tick, seconds(3)), Replacement::none);
}

TEST(PolicyFailures, ManyInAWindowReplaceAPolicyThatAlsoSucceeds) {
  PolicyFailures failures({3, 4, seconds(10)});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(failures.failed(PolicyEntry::use, seconds(3 * i)), Replacement::none);
    failures.succeeded(PolicyEntry::use);
  }
  EXPECT_EQ(failures.failed(PolicyEntry::use, seconds(10)), Replacement::failed_in_window);
  EXPECT_EQ(failures.in_window(), 4);
}

TEST(PolicyFailures, AWindowEndsAndTheNextOneBeginsWithTheNextFailure) {
  PolicyFailures failures({3, 2, seconds(10)});
  EXPECT_EQ(failures.failed(PolicyEntry::use, seconds(0)), Replacement::none);
  EXPECT_EQ(failures.failed(PolicyEntry::tick, seconds(10) + milliseconds(1)), Replacement::none);
  EXPECT_EQ(failures.in_window(), 1);
  EXPECT_EQ(failures.failed(PolicyEntry::use, seconds(20)), Replacement::failed_in_window);
}

TEST(PolicyFailures, OneThatDoesNotReturnIsReplacedAtOnceAndInTheEndByAnother) {
  PolicyFailures failures({2, 20, seconds(10)});
  EXPECT_EQ(failures.failed(PolicyEntry::alloc, seconds(0), Replacement::lost), Replacement::lost);
  EXPECT_EQ(failures.failed(PolicyEntry::alloc, seconds(1), Replacement::lost),
            Replacement::failed_in_a_row);
  failures.forget();
  EXPECT_EQ(failures.failed(PolicyEntry::alloc, seconds(2), Replacement::no_memory),
            Replacement::no_memory);
  EXPECT_EQ(failures.in_window(), 1);
}

}  // namespace
}  // namespace vma
