// Goal: a ring returns what was put in, in order and without end; when it fills up, it keeps a
// sample with weights of the right mean, and every use is either kept, sampled away or lost.
#include "telemetry/use_log.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <vector>

namespace vma {
namespace {

constexpr std::size_t entries = 64;
constexpr std::size_t all_entries = std::numeric_limits<std::size_t>::max();

Use entry_of(std::uint64_t number) {
  return {to_pointer(Address{number}), number + 1, gpu(1), UseKind::write, 2.5f};
}

std::vector<LoggedUse> taken(UseRing& ring, std::size_t max = all_entries) {
  std::vector<LoggedUse> uses;
  const std::size_t count = ring.take(uses, max);
  EXPECT_EQ(count, uses.size());
  return uses;
}

TEST(UseRing, GivesBackWhatWasPutIn) {
  UseRing ring(entries, 1);
  EXPECT_TRUE(ring.empty());
  ring.push({to_pointer(Address{4096}), 77, gpu(3), UseKind::read_write, 0.5f}, TimePoint(9));
  ring.push({nullptr, 0, host(0), UseKind::read, -1}, TimePoint(0));
  ring.push({nullptr, 0, gpu(-7), UseKind::read, 1}, TimePoint(0));
  ring.push({nullptr, 0, gpu(1 << 20), UseKind::read, 1}, TimePoint(0));
  EXPECT_FALSE(ring.empty());
  const std::vector<LoggedUse> uses = taken(ring);
  ASSERT_EQ(uses.size(), 4u);
  EXPECT_EQ(uses[0].address, Address{4096});
  EXPECT_EQ(uses[0].bytes, 77u);
  EXPECT_EQ(uses[0].device, DeviceId{3});
  EXPECT_EQ(uses[0].kind, UseKind::read_write);
  EXPECT_EQ(uses[0].passes, 0.5f);
  EXPECT_EQ(uses[0].weight, 1u);
  EXPECT_EQ(uses[0].at, TimePoint(9));
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(uses[i].device, DeviceId{-1}) << i;
  EXPECT_EQ(uses[1].passes, -1.0f);
  EXPECT_TRUE(ring.empty());
}

TEST(UseRing, GoesRoundAndRoundInOrder) {
  UseRing ring(entries, 1);
  std::uint64_t put = 0, got = 0;
  for (std::size_t round = 0; round < 1000; ++round) {
    for (std::size_t i = 0; i < round % (entries / 2 + 1); ++i) ring.push(entry_of(put++), {});
    for (const LoggedUse& use : taken(ring, round % 7 == 0 ? 3 : all_entries)) {
      ASSERT_EQ(use.address, Address{got});
      ASSERT_EQ(use.bytes, got + 1);
      ASSERT_EQ(use.weight, 1u) << "never over half full";
      ++got;
    }
    if (round % 7 == 0) got += taken(ring).size();
  }
  EXPECT_EQ(got, put);
  EXPECT_EQ(ring.kept(), put);
  EXPECT_EQ(ring.sampled_away() + ring.lost(), 0u);
}

TEST(UseRing, KeepsFewerAsItFillsAndNoneOnceItIsFull) {
  UseRing ring(entries, 1);
  std::uint64_t put = 0;
  while (ring.lost() == 0) ring.push(entry_of(put++), {});
  for (int i = 0; i < 99; ++i) ring.push(entry_of(put++), {});
  EXPECT_EQ(ring.kept(), entries);
  EXPECT_EQ(ring.lost(), 100u);
  EXPECT_EQ(ring.kept() + ring.sampled_away() + ring.lost(), put);
  const std::vector<LoggedUse> uses = taken(ring);
  ASSERT_EQ(uses.size(), entries);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::uint32_t weight = i < entries / 2 ? 1 : i < entries * 3 / 4 ? 4 : 16;
    EXPECT_EQ(uses[i].weight, weight) << i;
  }
  ring.push(entry_of(0), {});
  EXPECT_EQ(taken(ring).front().weight, 1u) << "an empty ring samples nothing";
}

// The loop has as many ranges as there are uses per kept one: taking every n-th use would always
// select the same range.
TEST(UseRing, SumsOfASampleHaveTheRightMeanForEachRangeOfALoop) {
  constexpr std::uint64_t ranges = 16, pushes = 400'000;
  UseRing ring(1024, 7);
  std::vector<double> weights(ranges);
  std::uint64_t got = 0;
  for (std::uint64_t i = 0; i < pushes; ++i) {
    ring.push(entry_of(i % ranges), {});
    if (ring.kept() - got < 1000) continue;
    // Keeps the ring between half full and full.
    for (const LoggedUse& use : taken(ring, 300)) weights[to_integer(use.address)] += use.weight;
    got += 300;
  }
  for (const LoggedUse& use : taken(ring)) weights[to_integer(use.address)] += use.weight;
  ASSERT_EQ(ring.lost(), 0u);
  ASSERT_GT(ring.sampled_away(), pushes / 2);
  EXPECT_NEAR(std::reduce(weights.begin(), weights.end()), pushes, 0.02 * pushes);
  for (std::uint64_t range = 0; range < ranges; ++range) {
    EXPECT_NEAR(weights[range], pushes / ranges, 0.08 * pushes / ranges) << range;
  }
}

TEST(UseRing, TakesNothingWhereThereIsNoRoomForIt) {
  UseRing ring(entries, 1);
  for (std::uint64_t i = 0; i < 10; ++i) ring.push(entry_of(i), {});
  EXPECT_EQ(taken(ring, 0).size(), 0u);
  EXPECT_EQ(taken(ring, 4).back().address, Address{3});
  EXPECT_EQ(taken(ring).front().address, Address{4});
}

}  // namespace
}  // namespace vma
