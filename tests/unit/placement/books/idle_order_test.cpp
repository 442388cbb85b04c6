// Goal: the order is by the last use, whatever is used, arrives and leaves. Method: random changes,
// beside a plain list that is sorted anew.

#include "placement/books/idle_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace vma {
namespace {

constexpr std::size_t places = 3, chunks = 200;

struct Plain {
  Time last_use{0};
  std::optional<std::size_t> at;
};

std::vector<std::pair<Time, std::size_t>> walked(const IdleOrder& order, std::size_t at) {
  std::vector<std::pair<Time, std::size_t>> found;
  IdleOrder::Walk walk(order, PlaceId{static_cast<std::uint8_t>(at)});
  for (ChunkId chunk{}; walk.next(chunk);) found.emplace_back(order.last_use(chunk), index(chunk));
  return found;
}

TEST(IdleOrder, IsThatOfTheLastUsesThroughAnyChanges) {
  IdleOrder order(places);
  order.make_room(chunks);
  std::array<Plain, chunks> plain;
  std::mt19937 dice(7);
  Time now{0};
  for (int step = 0; step < 20'000; ++step) {
    const std::size_t number = dice() % chunks;
    const ChunkId chunk{static_cast<std::uint32_t>(number)};
    Plain& known = plain[number];
    const std::size_t to = dice() % places;
    const auto place = [](std::size_t at) { return PlaceId{static_cast<std::uint8_t>(at)}; };
    if (dice() % 4 == 0) ++now;
    switch (dice() % 4) {
      case 0:
      case 1:
        if (!known.at) known.at = to;
        known.last_use = now;
        order.used(chunk, place(*known.at), now);
        break;
      case 2:
        if (known.at) order.left(chunk, place(*known.at));
        known.at = to;
        order.arrived(chunk, place(to));
        break;
      default:
        if (known.at && dice() % 4 == 0) {
          order.left(chunk, place(*known.at));
          known.at.reset();
        }
    }
    if (step % 50 != 0) continue;
    for (std::size_t at = 0; at < places; ++at) {
      std::vector<std::pair<Time, std::size_t>> expected;
      for (std::size_t i = 0; i < chunks; ++i) {
        if (plain[i].at == at) expected.emplace_back(plain[i].last_use, i);
      }
      std::vector<std::pair<Time, std::size_t>> found = walked(order, at);
      EXPECT_TRUE(std::ranges::is_sorted(found, {}, [](const auto& each) { return each.first; }));
      std::ranges::sort(expected);
      std::ranges::sort(found);
      ASSERT_EQ(found, expected) << "place " << at << " after " << step;
    }
  }
}

TEST(IdleOrder, OfAPlaceWithoutChunksIsEmpty) {
  const IdleOrder order(places);
  EXPECT_TRUE(walked(order, 0).empty());
}

}  // namespace
}  // namespace vma
