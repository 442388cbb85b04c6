// Goal: predicted uses are found in the order of their times, all of them, those that lie
// elsewhere and pay, and those at one place. Method: many random changes, compared with a sorted
// list.
#include "placement/auto/use_rhythm.hpp"

#include "support/test_run.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>
#include <vector>

namespace vma {
inline namespace v1 {
namespace {

class UseCalendarTest : public testing::Test {
 protected:
  static constexpr std::size_t places = 3;
  struct Known {
    NextUse use;
    Time asked{0};
    PlaceId at{};
    std::uint16_t pays_below = 0;
  };
  using Found = std::vector<std::tuple<Time, ChunkId>>;

  std::uint32_t draw(std::size_t below) { return static_cast<std::uint32_t>(random_() % below); }
  PlaceId draw_place() { return PlaceId{static_cast<std::uint8_t>(draw(places))}; }

  /// Few different times, so that many are equal and some predictions stay.
  void change(std::size_t chunks, bool fewer) {
    const ChunkId chunk{draw(chunks)};
    if (draw(4) < (fewer ? 3u : 1u)) {
      calendar_.drop(chunk);
      known_.erase(chunk);
      return;
    }
    const Known now{{Time(draw(chunks / 4)), draw_place(), 1},
                    Time(draw(10)),
                    draw_place(),
                    static_cast<std::uint16_t>(draw(4))};
    calendar_.put(chunk, now.use, now.asked, now.at, now.pays_below);
    known_[chunk] = now;
  }
  Found sorted(auto&& wanted) const {
    Found found;
    for (const auto& [chunk, each] : known_)
      if (wanted(each)) found.emplace_back(each.use.at, chunk);
    std::ranges::sort(found);
    return found;
  }
  void compare(std::size_t most) {
    Found all, away, there;
    const auto into = [](Found& found) {
      return [&found](ChunkId chunk, const NextUse& use) {
        found.emplace_back(use.at, chunk);
        return true;
      };
    };
    calendar_.nearest(into(all));
    EXPECT_EQ(all, sorted([](const Known&) { return true; }));
    const std::size_t working = draw(4);
    calendar_.nearest_paying(most, working, into(away));
    all.resize(std::min(all.size(), most));
    std::erase_if(all, [&](const auto& each) {
      const Known& known = known_.at(std::get<ChunkId>(each));
      return known.use.device == known.at || working >= known.pays_below;
    });
    EXPECT_EQ(away, all);
    const PlaceId place = draw_place();
    calendar_.furthest(place, into(there));
    std::ranges::reverse(there);
    EXPECT_EQ(there, sorted([&](const Known& known) { return known.at == place; }));
  }

  std::mt19937_64 random_{run_seed()};
  UseCalendar calendar_;
  std::map<ChunkId, Known> known_;
};

TEST_F(UseCalendarTest, HasWhatWasLastPutInOrder) {
  // Enough to fill several blocks, and to empty them.
  for (const bool fewer : {false, true, false}) {
    for (int i = 0; i < 4000; ++i) change(1000, fewer);
    compare(draw(1000));
    for (const auto& [chunk, known] : known_) {
      EXPECT_EQ(calendar_[chunk].asked, known.asked);
      EXPECT_EQ(calendar_[chunk].use.device, known.use.device);
    }
  }
}

TEST_F(UseCalendarTest, HoldsWithFewChunks) {
  for (int i = 0; i < 2000; ++i) {
    change(8, i % 100 > 50);
    compare(draw(8));
  }
}

TEST_F(UseCalendarTest, EndsWhenItIsToldTo) {
  for (std::uint32_t chunk = 0; chunk < 3; ++chunk)
    calendar_.put(ChunkId{chunk}, {Time(chunk), PlaceId{0}, 1}, Time(0), PlaceId{1}, 2);
  std::size_t calls = 0;
  const auto second = [&](ChunkId, const NextUse&) { return ++calls % 2 != 0; };
  calendar_.nearest(second);
  EXPECT_EQ(calls, 2u);
  calendar_.nearest_paying(3, 1, second);
  EXPECT_EQ(calls, 4u);
  calendar_.furthest(PlaceId{1}, second);
  EXPECT_EQ(calls, 6u);
}

}  // namespace
}  // namespace v1
}  // namespace vma
