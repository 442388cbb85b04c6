// Goal: ends that are expected within a time are found, the next one first, as they were last put.
// Method: many random changes, each compared with a search among all.
#include "placement/auto/repeated_lives.hpp"

#include "support/test_run.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>

namespace vma {
inline namespace v1 {
namespace {

using namespace std::chrono_literals;

class ExpectedEndsTest : public testing::Test {
 protected:
  static constexpr std::size_t allocations = 40, gpus = 3;

  struct Known {
    PlaceId device{};
    ExpectedEnds::End end;
  };
  static PlaceId gpu(std::size_t number) { return PlaceId{static_cast<std::uint8_t>(number)}; }
  std::size_t draw(std::size_t below) { return random_() % below; }

  void change() {
    const auto allocation = static_cast<LiveAllocations::Number>(draw(allocations));
    if (draw(3) == 0) {
      ends_.drop(allocation);
      known_.erase(allocation);
      return;
    }
    // Few different times, so that many are equal.
    const Known now{gpu(draw(gpus)), {Time(draw(20)), 1s, static_cast<double>(++put_), put_}};
    ends_.put(allocation, now.device, now.end);
    known_[allocation] = now;
  }
  void compare(PlaceId device, Time until) {
    std::vector<std::pair<Time, std::uint64_t>> expected, found;
    for (const auto& [allocation, each] : known_)
      if (each.device == device && each.end.at < until)
        expected.emplace_back(each.end.at, each.end.like);
    ends_.for_each(device, until, [&](const ExpectedEnds::End& end) {
      EXPECT_EQ(end.bytes, static_cast<double>(end.like));
      EXPECT_EQ(end.took, 1s);
      found.emplace_back(end.at, end.like);
    });
    EXPECT_TRUE(std::ranges::is_sorted(found, {}, &std::pair<Time, std::uint64_t>::first));
    std::ranges::sort(expected);
    std::ranges::sort(found);
    EXPECT_EQ(found, expected);
  }

  std::mt19937_64 random_{run_seed()};
  ExpectedEnds ends_;
  std::map<LiveAllocations::Number, Known> known_;
  std::uint64_t put_ = 0;
};

TEST_F(ExpectedEndsTest, HoldsWhatWasLastPut) {
  for (int i = 0; i < 3000; ++i) {
    change();
    compare(gpu(draw(gpus)), Time(draw(25)));
  }
}

TEST_F(ExpectedEndsTest, KnowsNothingOfAGpuOrAllocationThatNobodyNamed) {
  ends_.drop(7);
  ends_.for_each(gpu(5), Time::max(), [](const ExpectedEnds::End&) { ADD_FAILURE(); });
}

}  // namespace
}  // namespace v1
}  // namespace vma
