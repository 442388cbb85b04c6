// Goal: batches converge to the intended duration, within their bounds. Method: memory of a given
// speed, from far slower than a host link to far faster than HBM.
#include "bench/placement/launch_pace.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

std::chrono::nanoseconds batch_at(double bytes_a_second, const LaunchPace& pace) {
  const double bytes = static_cast<double>(pace.launch_bytes() * LaunchPace::batch);
  return std::chrono::nanoseconds(static_cast<std::int64_t>(1e9 * bytes / bytes_a_second));
}

LaunchPace settled_at(double bytes_a_second, LaunchPace pace = {}) {
  pace.adapt(pace.launch_bytes() * LaunchPace::batch, batch_at(bytes_a_second, pace));
  return pace;
}

TEST(LaunchPace, ABatchTakesAboutItsTimeAtTheSpeedOfLinks) {
  for (const double speed : {50e9, 380e9}) {
    const std::chrono::nanoseconds took = batch_at(speed, settled_at(speed));
    EXPECT_LE(took, LaunchPace::batch_time) << speed;
    EXPECT_GE(took, LaunchPace::batch_time / 2) << speed;
  }
}

TEST(LaunchPace, StaysWithinItsBounds) {
  EXPECT_EQ(settled_at(1e6).launch_bytes(), LaunchPace::launch_bytes_min);
  EXPECT_EQ(settled_at(1e15).launch_bytes(), LaunchPace::launch_bytes_max);
  LaunchPace pace;
  pace.adapt(0, std::chrono::nanoseconds(0));
  EXPECT_EQ(pace.launch_bytes(), LaunchPace::launch_bytes_min);
}

TEST(LaunchPace, FollowsInOneBatchEitherWay) {
  const LaunchPace far = settled_at(50e9), near = settled_at(4e12);
  EXPECT_EQ(settled_at(50e9, near).launch_bytes(), far.launch_bytes());
  EXPECT_EQ(settled_at(4e12, far).launch_bytes(), near.launch_bytes());
}

}  // namespace
}  // namespace vma
