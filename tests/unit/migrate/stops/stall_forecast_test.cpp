// Goal: predictions start from a guess for the kind of move, follow what was measured, and keep the
// kinds apart.
#include "migrate/stops/stall_forecast.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

using std::chrono::microseconds;
using Fill = StallForecast::Fill;

constexpr std::uint64_t chunk_bytes = 64 << 20;

TEST(StallForecast, GuessesByGpusAndByWhereTheMemoryLies) {
  const StallForecast forecast;
  const auto one = forecast.switch_time({gpu(0), gpu(1), chunk_bytes, 1});
  const auto four = forecast.switch_time({gpu(0), gpu(1), chunk_bytes, 4});
  const auto hosted = forecast.switch_time({gpu(0), host(0), chunk_bytes, 1});
  EXPECT_GT(four, 2 * one);
  EXPECT_GT(hosted, microseconds(500)) << "pages of host memory are small";
  EXPECT_EQ(forecast.fill_time(Fill::none, chunk_bytes), microseconds(0));
  EXPECT_LT(forecast.fill_time(Fill::settle, chunk_bytes),
            forecast.fill_time(Fill::copy, chunk_bytes));
}

TEST(StallForecast, FollowsWhatWasMeasuredOfTheSameKind) {
  StallForecast forecast;
  const StallForecast::Switch there{gpu(0), gpu(1), chunk_bytes, 2};
  const StallForecast::Switch larger{gpu(0), gpu(1), 4 * chunk_bytes, 2};
  const auto guess = forecast.switch_time(larger);
  forecast.note_switched(there, microseconds(400));
  EXPECT_EQ(forecast.switch_time(there), microseconds(400)) << "the first outweighs the guess";
  EXPECT_EQ(forecast.switch_time({gpu(1), gpu(0), chunk_bytes, 2}), microseconds(400));
  EXPECT_EQ(forecast.switch_time(larger), guess);
  forecast.note_switched(there, microseconds(800));
  EXPECT_GT(forecast.switch_time(there), microseconds(400));
  EXPECT_LT(forecast.switch_time(there), microseconds(800));
  for (int i = 0; i < 50; ++i) forecast.note_switched(there, microseconds(100));
  EXPECT_NEAR(static_cast<double>(forecast.switch_time(there).count()), 100e3, 1e3);
}

TEST(StallForecast, KeepsSettlingAndCopiesApart) {
  StallForecast forecast;
  const auto copy = forecast.fill_time(Fill::copy, chunk_bytes);
  for (int i = 0; i < 50; ++i) forecast.note_filled(Fill::settle, chunk_bytes, microseconds(600));
  EXPECT_NEAR(static_cast<double>(forecast.fill_time(Fill::settle, 2 * chunk_bytes).count()), 1.2e6,
              1e4);
  EXPECT_EQ(forecast.fill_time(Fill::copy, chunk_bytes), copy);
  const auto settle = forecast.fill_time(Fill::settle, chunk_bytes);
  forecast.note_filled_within(Fill::settle, chunk_bytes, settle * 2);
  EXPECT_EQ(forecast.fill_time(Fill::settle, chunk_bytes), settle) << "as expected";
  forecast.note_filled_within(Fill::settle, chunk_bytes, settle / 2);
  EXPECT_LT(forecast.fill_time(Fill::settle, chunk_bytes), settle);
  forecast.note_filled(Fill::none, chunk_bytes, microseconds(1));
  EXPECT_EQ(forecast.fill_time(Fill::none, chunk_bytes), microseconds(0));
}

}  // namespace
}  // namespace vma
