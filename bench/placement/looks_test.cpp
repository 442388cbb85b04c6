// Goal: neither one good look nor one bad look decides when a program has recovered. Method: rates
// given by hand, in looks of 50 ms.
#include "bench/placement/looks.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace vma {
namespace {

std::vector<Look> looks_of(const std::vector<double>& rates) {
  std::vector<Look> looks;
  for (const double rate : rates) {
    const double begin = looks.empty() ? 0 : looks.back().end;
    looks.push_back({begin, begin + 0.05, rate});
  }
  return looks;
}

/// So many looks at each rate.
std::vector<Look> looks_of(int low, int high, double rate = 10) {
  std::vector<double> rates(static_cast<std::size_t>(low), 1);
  rates.resize(static_cast<std::size_t>(low + high), rate);
  return looks_of(rates);
}

TEST(RecoveryOf, IsTheBeginningOfTheFirstLookAtTheRate) {
  EXPECT_NEAR(recovery_of(looks_of(6, 20), 9).value(), 0.3, 1e-9);
  EXPECT_EQ(recovery_of(looks_of(0, 20), 9), 0.0);
}

TEST(RecoveryOf, IsNoneIfTheRateIsNeverReached) {
  EXPECT_EQ(recovery_of(looks_of(6, 20, 8.9), 9), std::nullopt);
  EXPECT_EQ(recovery_of({}, 9), std::nullopt);
}

TEST(RecoveryOf, OneGoodLookIsNoRecovery) {
  std::vector<Look> looks = looks_of(6, 20);
  looks[1].rate = 10;
  EXPECT_NEAR(recovery_of(looks, 9).value(), 0.3, 1e-9);
}

TEST(RecoveryOf, OneBadLookIsNoRelapse) {
  std::vector<Look> looks = looks_of(6, 20);
  looks[8].rate = 1;  // A tenth of the half second: the average is 9.1.
  EXPECT_NEAR(recovery_of(looks, 9).value(), 0.3, 1e-9);
}

TEST(RecoveryOf, AtTheEndTheRestOfTheLooksIsTheAverage) {
  EXPECT_NEAR(recovery_of(looks_of(6, 1), 9).value(), 0.3, 1e-9);
}

}  // namespace
}  // namespace vma
