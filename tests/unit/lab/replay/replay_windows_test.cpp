#include "lab/replay/replay_account.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <vector>

namespace vma {
namespace {

using std::chrono::seconds;
using Resident = std::vector<std::uint64_t>;

TEST(ReplayWindows, EachHoldsWhatLiesThereAtItsEnd) {
  ReplayWindows windows(seconds(1));
  windows.begin(seconds(10));
  windows.current().bytes = 5;
  EXPECT_FALSE(windows.over(seconds(11) - Time(1)));
  ASSERT_TRUE(windows.over(seconds(11)));
  windows.pass(seconds(11), {1, 2});
  windows.current().bytes = 7;
  ASSERT_TRUE(windows.over(seconds(14)));
  windows.pass(seconds(14), {3, 4});  // The empty windows in between too.
  windows.current().bytes = 9;
  const std::vector<ReplayWindow> all = windows.take({5, 6});
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all[0].resident, (Resident{1, 2}));
  for (const std::size_t i : {1, 2, 3}) EXPECT_EQ(all[i].resident, (Resident{3, 4}));
  EXPECT_EQ(all[4].resident, (Resident{5, 6}));
  EXPECT_EQ(all[0].bytes, 5);
  EXPECT_EQ(all[1].bytes, 7);
  EXPECT_EQ(all[2].bytes, 0);
  EXPECT_EQ(all[4].bytes, 9);
}

TEST(ReplayWindows, TwoBecomeOneThatEndsAsTheSecond) {
  ReplayWindows windows(seconds(1), 3);
  windows.begin(seconds(0));
  for (std::uint64_t i = 0; i < 5; ++i) {
    if (i > 0) {
      ASSERT_TRUE(windows.over(seconds(i)));
      windows.pass(seconds(i), {i});
    }
    windows.current().bytes_moved = 1 + windows.current().bytes_moved;
    windows.current().bytes += 1;
    windows.current().access_s += 2;
    windows.current().local_s += 3;
  }
  // At 3 s there would be four windows, so they were merged: 0 to 2 s and 2 to 4 s, the latter half
  // empty as yet.
  EXPECT_EQ(windows.length(), seconds(2));
  std::vector<ReplayWindow> all = windows.take({9});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0], (ReplayWindow{2, 4, 6, 2, {2}}));
  EXPECT_EQ(all[1], (ReplayWindow{2, 4, 6, 2, {4}}));
  EXPECT_EQ(all[2], (ReplayWindow{1, 2, 3, 1, {9}}));
}

TEST(ReplayWindows, ALongWaitMakesThemLongAtOnce) {
  ReplayWindows windows(seconds(1), 4);
  windows.begin(seconds(0));
  windows.current().bytes = 1;
  windows.pass(seconds(21), {7});
  EXPECT_EQ(windows.length(), seconds(8));
  const std::vector<ReplayWindow> all = windows.take({8});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0], (ReplayWindow{1, 0, 0, 0, {7}}));
  EXPECT_EQ(all[1].resident, Resident{7});
  EXPECT_EQ(all[2].resident, Resident{8});
}

}  // namespace
}  // namespace vma
