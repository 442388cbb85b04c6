// Goal: guesses about what a GPU uses stay within what it can have accessed, and keep their
// proportions; what is known stays, and time in which less was claimed is not lost.
#include "telemetry/claim_limit.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;

constexpr PlaceId first_gpu{0}, second_gpu{1}, host_node{2};
constexpr double gigabytes = 1e9;

UseClaim guess(PlaceId device, PlaceId at, double bytes) {
  return {device, at, 0, bytes / 2, bytes / 2};
}

class ClaimLimits : public testing::Test {
 protected:
  ClaimLimits() {
    for (const PlaceId device : {first_gpu, second_gpu}) {
      for (const PlaceId at : {first_gpu, second_gpu, host_node}) {
        costs_.access_rate(device, at) = at == host_node ? 10 * gigabytes
                                         : device == at  ? 1000 * gigabytes
                                                         : 100 * gigabytes;
      }
    }
    limit_ = ClaimLimit(costs_);
    // The time in which nothing was claimed before is used up.
    fit({guess(first_gpu, first_gpu, 1e15), guess(second_gpu, second_gpu, 1e15)},
        milliseconds(1000));
  }
  std::vector<double> fit(const std::vector<UseClaim>& claims, milliseconds passed) {
    now_ += passed;
    const auto kept = limit_.fit(claims, costs_, now_);
    return {kept.begin(), kept.end()};
  }

  MachineCosts costs_{2, 3};
  TimePoint now_{0};
  ClaimLimit limit_{costs_};
};

TEST_F(ClaimLimits, EachGpuKeepsWhatItCanHaveAccessed) {
  const auto kept = fit(
      {guess(first_gpu, first_gpu, 30 * gigabytes), guess(first_gpu, first_gpu, 10 * gigabytes),
       guess(second_gpu, first_gpu, 1 * gigabytes), guess(second_gpu, host_node, 0.1 * gigabytes)},
      milliseconds(10));
  EXPECT_NEAR(kept[0], 0.25, 1e-9) << "10 of 40 gigabytes";
  EXPECT_NEAR(kept[1], 1, 1e-9) << "at several places at once";
}

TEST_F(ClaimLimits, TheNarrowestPathCutsAllOfAGpu) {
  EXPECT_NEAR(
      fit({guess(first_gpu, first_gpu, 1 * gigabytes), guess(first_gpu, host_node, 1 * gigabytes)},
          milliseconds(10))[0],
      0.1, 1e-9);
}

TEST_F(ClaimLimits, WhatIsKnownComesFirst) {
  EXPECT_NEAR(
      fit({{first_gpu, first_gpu, 6 * gigabytes, 0, 0}, guess(first_gpu, first_gpu, 8 * gigabytes)},
          milliseconds(10))[0],
      0.5, 1e-9);
  EXPECT_EQ(fit({{first_gpu, first_gpu, 60 * gigabytes, 0, 0}, guess(first_gpu, first_gpu, 1)},
                milliseconds(10))[0],
            0);
}

TEST_F(ClaimLimits, WorkThatWasEnqueuedAheadCountsWithTheTimeBeforeIt) {
  EXPECT_EQ(fit({}, milliseconds(80))[0], 1);
  EXPECT_NEAR(fit({guess(first_gpu, first_gpu, 50 * gigabytes)}, milliseconds(0))[0], 1, 1e-9);
  EXPECT_NEAR(fit({guess(first_gpu, first_gpu, 60 * gigabytes)}, milliseconds(0))[0], 0.5, 1e-9);
  fit({}, milliseconds(60'000));
  EXPECT_NEAR(fit({guess(first_gpu, first_gpu, 2000 * gigabytes)}, milliseconds(0))[0], 0.5, 1e-9)
      << "the time of a second at most";
}

TEST_F(ClaimLimits, APathThatNobodyKnowsLimitsNothing) {
  costs_.access_rate(first_gpu, second_gpu) = 0;
  EXPECT_EQ(fit({guess(first_gpu, second_gpu, 1e15)}, milliseconds(1))[0], 1);
}

}  // namespace
}  // namespace vma
