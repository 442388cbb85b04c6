// Goal: chunks are ordered by value to half a doubling, in order of arrival within it, whatever is
// inserted and removed, and knows the mean. Method: random operations compared with a sorted list.
#include "placement/auto/victim_search.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <tuple>
#include <vector>

namespace vma {
inline namespace v1 {
namespace {

constexpr std::size_t places = 3, ordered_chunks = 60;

std::vector<std::uint32_t> listed(const ValueOrder& order, PlaceId at) {
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t number = order.first(at); number != ChunkRow::none;
       number = order.next(number)) {
    numbers.push_back(number);
    if (numbers.size() > ordered_chunks) break;  // The list is a ring by mistake.
  }
  return numbers;
}

/// Where a chunk belongs: place, half doublings of its key, and when it came there.
using Stopped = std::tuple<std::size_t, int, int>;

std::vector<std::uint32_t> expected(const std::map<std::uint32_t, Stopped>& model, std::size_t at) {
  std::vector<std::pair<Stopped, std::uint32_t>> there;
  for (const auto& [chunk, standing] : model) {
    if (std::get<0>(standing) == at) there.emplace_back(standing, chunk);
  }
  std::ranges::sort(there);
  std::vector<std::uint32_t> numbers;
  for (const auto& [standing, chunk] : there) numbers.push_back(chunk);
  return numbers;
}

TEST(ValueOrder, IsThatOfASortedList) {
  std::mt19937 random(5);
  ValueOrder order;
  std::map<std::uint32_t, Stopped> model;
  for (int step = 0; step < 20000; ++step) {
    const std::uint32_t chunk = random() % ordered_chunks;
    if (random() % 5 == 0) {
      order.drop(ChunkId{chunk});
      model.erase(chunk);
    } else {
      const std::size_t at = random() % places;
      const double key =
          random() % 10 == 0 ? ValueOrder::worthless : static_cast<double>(random() % 80) / 8 - 5;
      const int bucket = static_cast<int>(std::floor(key * 2));
      order.put(ChunkId{chunk}, PlaceId{static_cast<std::uint8_t>(at)}, key, 1);
      const auto found = model.find(chunk);
      const bool stays = found != model.end() && std::get<0>(found->second) == at &&
                         std::get<1>(found->second) == bucket;
      if (!stays) model[chunk] = {at, bucket, step};
    }
    const std::size_t at = random() % places;
    ASSERT_EQ(listed(order, PlaceId{static_cast<std::uint8_t>(at)}), expected(model, at)) << step;
  }
}

TEST(ValueOrder, KnowsTheMeanValueOfTheBytesOfAPlace) {
  constexpr double fading = 3;
  std::mt19937 random(6);
  ValueOrder order;
  struct Listed {
    PlaceId at{};
    double key = 0, bytes = 0;
  };
  std::map<std::uint32_t, Listed> model;
  for (int step = 0; step < 5000; ++step) {
    const std::uint32_t chunk = random() % ordered_chunks;
    order.drop(ChunkId{chunk});
    model.erase(chunk);
    if (random() % 5 != 0) {
      const PlaceId at{static_cast<std::uint8_t>(random() % places)};
      const double key =
          random() % 4 == 0 ? ValueOrder::worthless : static_cast<double>(random() % 80) / 8 - 5;
      const std::uint64_t bytes = (1 + random() % 100) << 21;
      order.put(ChunkId{chunk}, at, key, bytes);
      model[chunk] = {at, key, static_cast<double>(bytes)};
    }
    const PlaceId at{static_cast<std::uint8_t>(random() % places)};
    double value = 0, bytes = 0;
    for (const auto& [number, listed] : model) {
      if (listed.at != at) continue;
      value += listed.bytes * std::exp2(listed.key - fading);
      bytes += listed.bytes;
    }
    const double mean = bytes > 0 ? value / bytes : 0;
    ASSERT_NEAR(order.mean_value(at, fading), mean, 0.2 * mean) << step;
  }
}

}  // namespace
}  // namespace v1
}  // namespace vma
