// Goal: bytes are booked on the right chunk and GPU, as computed by hand; invalid reports of a
// program are only counted.
#include "telemetry/use_summary.hpp"

#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t page = 4096;
constexpr Address nowhere{page};

LoggedUse use(Address address, std::uint64_t bytes, int gpu, UseKind kind = UseKind::read,
              float passes = 1, std::uint32_t weight = 1, TimePoint at = TimePoint(0)) {
  return {address, bytes, DeviceId{gpu}, kind, passes, weight, at};
}

class UseSummaryTest : public testing::Test {
 protected:
  void add(const std::vector<LoggedUse>& uses) { summary_.add(uses); }

  /// Bytes read and written, by start of the allocation, slot and GPU. Each combination has one
  /// row.
  std::map<std::tuple<Address, std::uint32_t, int>, std::pair<double, double>> booked() const {
    std::map<std::tuple<Address, std::uint32_t, int>, std::pair<double, double>> booked;
    for (const UseSummary::Row& row : summary_.rows()) {
      const auto [cell, is_new] = booked.try_emplace({row.begin, row.slot, index(row.device)},
                                                     row.bytes_read, row.bytes_written);
      EXPECT_TRUE(is_new) << "two rows of slot " << row.slot;
      const auto found = registry().find(row.begin);
      EXPECT_TRUE(found && found->id == row.allocation);
    }
    return booked;
  }
  const Registry& registry() const { return rig_.memory().registry(); }
  void expect_ignored(std::uint64_t unknown_uses, double unknown_bytes, std::uint64_t bad_uses) {
    EXPECT_EQ(summary_.ignored().unknown_uses, unknown_uses);
    EXPECT_EQ(summary_.ignored().unknown_bytes, unknown_bytes);
    EXPECT_EQ(summary_.ignored().bad_uses, bad_uses);
  }

  mutable MemoryRig rig_;
  UseSummary summary_{rig_.memory().registry(), rig_.topology()};
};

using Booked = std::map<std::tuple<Address, std::uint32_t, int>, std::pair<double, double>>;

TEST_F(UseSummaryTest, CutsARangeAtTheBordersOfChunks) {
  const auto allocation = rig_.alloc(7, gpu(0), 2);  // Slots of 2, 2, 2 and 1 pages.
  const Address begin = allocation->begin();
  add({use(begin + (2 * page - 100), 100 + 2 * page + 30, 1)});
  EXPECT_EQ(booked(), (Booked{{{begin, 0, 1}, {100, 0}},
                              {{begin, 1, 1}, {2 * page, 0}},
                              {{begin, 2, 1}, {30, 0}}}));
  summary_.clear();
  add({use(begin, 7 * page, 0, UseKind::write)});
  EXPECT_EQ(booked(), (Booked{{{begin, 0, 0}, {0, 2 * page}},
                              {{begin, 1, 0}, {0, 2 * page}},
                              {{begin, 2, 0}, {0, 2 * page}},
                              {{begin, 3, 0}, {0, page}}}));
  summary_.clear();
  add({use(begin + (2 * page - 1), 1, 0), use(begin + 2 * page, 1, 0)});
  EXPECT_EQ(booked(), (Booked{{{begin, 0, 0}, {1, 0}}, {{begin, 1, 0}, {1, 0}}}));
  expect_ignored(0, 0, 0);
  rig_.free(allocation);
}

TEST_F(UseSummaryTest, AddsUpPassesWeightsAndKindsOfEachGpu) {
  const auto first = rig_.alloc(2, gpu(0), 1), second = rig_.alloc(1, gpu(1), 1);
  add({use(first->begin(), 100, 0, UseKind::read, 2.5f, 4),  // 1000 bytes
       use(second->begin(), 10, 0, UseKind::write),
       use(first->begin() + 50, 100, 0, UseKind::read_write, 3, 1),  // 300 bytes each way
       use(first->begin(), 100, 1, UseKind::write, 1, 16),
       use(first->begin(), 100, 1, UseKind::read, 0)});
  add({use(second->begin(), 5, 0, UseKind::write)});
  EXPECT_EQ(booked(), (Booked{{{first->begin(), 0, 0}, {1300, 300}},
                              {{first->begin(), 0, 1}, {0, 1600}},
                              {{second->begin(), 0, 0}, {0, 15}}}));
  EXPECT_EQ(summary_.rows().front().begin, first->begin()) << "in the order of first use";
  rig_.free(first);
  rig_.free(second);
}

TEST_F(UseSummaryTest, KeepsGuessesApart) {
  const auto allocation = rig_.alloc(1, gpu(0), 1);
  LoggedUse guess = use(allocation->begin(), 100, 0, UseKind::read_write, 0.5f, 4);
  guess.guessed = true;
  add({use(allocation->begin(), 30, 0), guess});
  const UseSummary::Row& row = summary_.rows().front();
  EXPECT_EQ(row.bytes_read, 30);
  EXPECT_EQ(row.bytes_written, 0);
  EXPECT_EQ(row.guessed_read, 200);
  EXPECT_EQ(row.guessed_written, 200);
  rig_.free(allocation);
}

TEST_F(UseSummaryTest, KeepsTheEarliestTimeThatThereIs) {
  const auto allocation = rig_.alloc(1, gpu(0), 1);
  const auto earliest = [&](std::vector<TimePoint::rep> times) {
    summary_.clear();
    for (const auto time : times) {
      add({use(allocation->begin(), 8, 0, UseKind::read, 1, 1, TimePoint(time))});
    }
    return summary_.rows().front().earliest.count();
  };
  EXPECT_EQ(earliest({0, 0}), 0);
  EXPECT_EQ(earliest({30, 20, 40}), 20);
  EXPECT_EQ(earliest({0, 30, 0}), 30) << "no time is not an early one";
  rig_.free(allocation);
}

TEST_F(UseSummaryTest, CountsWhatLiesInNoAllocation) {
  const auto allocation = rig_.alloc(2, gpu(0), 2);
  add({use(nowhere, 100, 0, UseKind::read, 2, 4)});
  expect_ignored(4, 800, 0);
  EXPECT_TRUE(summary_.rows().empty());
  add({use(allocation->begin() + (2 * page - 10), 25, 0, UseKind::read, 2)});
  EXPECT_EQ(booked(), (Booked{{{allocation->begin(), 0, 0}, {20, 0}}})) << "clipped at the end";
  expect_ignored(4, 830, 0);
  rig_.free(allocation);
}

TEST_F(UseSummaryTest, CountsFreedMemoryAsUnknown) {
  const auto allocation = rig_.alloc(2, gpu(0), 1);
  const Address begin = allocation->begin();
  add({use(begin, 10, 0)});
  rig_.free(allocation);
  summary_.clear();
  add({use(begin, 10, 0)});
  EXPECT_TRUE(summary_.rows().empty());
  expect_ignored(1, 10, 0);
}

TEST_F(UseSummaryTest, TakesNoAllocationForAnOlderOneOfItsNumber) {
  const auto first = rig_.alloc(4, gpu(0), 2);
  const AllocationId id = registry().find(first->begin())->id;
  add({use(first->begin(), 3 * page, 0)});
  rig_.free(first);
  const auto second = rig_.alloc(6, gpu(1), 3);
  ASSERT_EQ(registry().find(second->begin())->id, id) << "the number is used again";
  summary_.clear();
  add({use(second->begin() + 2 * page, 2 * page, 1)});
  EXPECT_EQ(booked(),
            (Booked{{{second->begin(), 0, 1}, {page, 0}}, {{second->begin(), 1, 1}, {page, 0}}}));
  rig_.free(second);
}

TEST_F(UseSummaryTest, CountsWhatMakesNoSense) {
  const auto allocation = rig_.alloc(1, gpu(0), 1);
  const Address begin = allocation->begin();
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const std::vector<LoggedUse> bad{
      use(begin, 1, -1),
      use(begin, 1, 2),  // The machine has two GPUs.
      use(begin, 1, 32767),
      use(begin, most, 0),
      use(Address{most}, 1, 0),
      use(begin, 1, 0, UseKind::read, -0.5f),
      use(begin, 1, 0, UseKind::read, infinity),
      use(begin, 1, 0, UseKind::read, std::nanf("")),
      use(begin, 1, 0, static_cast<UseKind>(3)),
  };
  for (std::size_t i = 0; i < bad.size(); ++i) {
    add({bad[i]});
    EXPECT_EQ(summary_.ignored().bad_uses, i + 1) << "number " << i;
  }
  add({use(begin, 1, -1, UseKind::read, 1, 16)});
  expect_ignored(0, 0, bad.size() + 16);
  EXPECT_TRUE(summary_.rows().empty());
  add({use(begin, most - to_integer(begin), 0)});
  EXPECT_EQ(booked(), (Booked{{{begin, 0, 0}, {page, 0}}})) << "the longest that there can be";
  rig_.free(allocation);
}

TEST_F(UseSummaryTest, ServesTheGpusOfTheRuntimeOnly) {
  const auto allocation = rig_.alloc(1, gpu(0), 1);
  const std::vector<int> second{1};
  const Topology topology = Topology::discover(rig_.machine(), second);
  UseSummary summary(registry(), topology);
  const std::vector<LoggedUse> uses{use(allocation->begin(), 1, 0), use(allocation->begin(), 1, 1)};
  summary.add(uses);
  ASSERT_EQ(summary.rows().size(), 1u);
  EXPECT_EQ(summary.rows()[0].device, DeviceId{1});
  EXPECT_EQ(summary.ignored().bad_uses, 1u);
  rig_.free(allocation);
}

}  // namespace
}  // namespace vma
