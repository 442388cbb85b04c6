// Goal: the order is by the last use, whatever is used, arrives and leaves. Method: random changes,
// beside a plain list that is sorted anew.

#include "placement/books/idle_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

namespace vma {
namespace {

constexpr std::size_t places = 3, chunks = 200;

/// The chunks of a place in the order of a walk.
std::vector<std::size_t> walked(const IdleOrder& order, std::size_t at, IdleOrder::Rows rows) {
  std::vector<std::size_t> found;
  IdleOrder::Walk walk(order, PlaceId{static_cast<std::uint8_t>(at)}, rows);
  while (const auto chunk = walk.next()) found.push_back(index(*chunk));
  return found;
}

TEST(IdleOrder, IsThatOfTheLastUsesThroughAnyChanges) {
  IdleOrder order(places);
  order.make_room(chunks);
  std::vector<ChunkRow> rows(chunks);
  std::vector<std::optional<std::size_t>> lies(chunks);
  std::mt19937 dice(7);
  Time now{0};
  const auto place = [](std::size_t at) { return PlaceId{static_cast<std::uint8_t>(at)}; };
  for (int step = 0; step < 20'000; ++step) {
    const std::size_t number = dice() % chunks, to = dice() % places;
    const ChunkId chunk{static_cast<std::uint32_t>(number)};
    if (dice() % 4 == 0) ++now;
    const unsigned what = dice() % 16;
    if (lies[number]) order.left(chunk, place(*lies[number]), rows);
    if (what < 8) {  // Used where it lies, or made.
      if (!lies[number]) lies[number] = to;
      rows[number].last_use = now;
      order.used(chunk, place(*lies[number]));
    } else if (what < 15) {
      lies[number] = to;
      order.arrived(chunk, place(to), rows);
    } else {
      lies[number].reset();
    }
    if (step % 50 != 0) continue;
    for (std::size_t at = 0; at < places; ++at) {
      std::vector<std::size_t> expected, found = walked(order, at, rows);
      for (std::size_t i = 0; i < chunks; ++i) {
        if (lies[i] == at) expected.push_back(i);
      }
      EXPECT_TRUE(
          std::ranges::is_sorted(found, {}, [&](std::size_t i) { return rows[i].last_use; }));
      std::ranges::sort(found);
      ASSERT_EQ(found, expected) << "place " << at << " after " << step;
    }
  }
}

TEST(IdleOrder, OfAPlaceWithoutChunksIsEmpty) {
  const IdleOrder order(places);
  EXPECT_TRUE(walked(order, 0, {}).empty());
}

}  // namespace
}  // namespace vma
