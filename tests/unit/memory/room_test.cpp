// Goal: if there is no room, whoever can make some is asked, with no turn held and for a limited
// time; a refusal lists the holders of memory; a capacity may change at any time.
#include "base/printable.hpp"
#include "unit/memory/memory_rig.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace vma {
namespace {

using enum MemoryPressure::Answer;

constexpr std::chrono::milliseconds limit(50);

MemoryLimits capped_and_quick(std::uint64_t pages) {
  MemoryLimits limits;
  limits.capacity_bytes[gpu(0)] = (pages + 2) * page_bytes;  // Includes the keeper and its spare.
  limits.pressure_limit = limit;
  return limits;
}

class RoomTest : public testing::Test {
 protected:
  /// Time on the machine's clock since the start of the test.
  TimePoint since_start() { return rig_.machine().clock().now() - start_; }
  Memory& memory() { return rig_.memory(); }
  Error refusal(std::uint64_t pages) {
    start_ = rig_.machine().clock().now();
    return expect_error(ErrorKind::out_of_memory, [&] { rig_.alloc(pages, gpu(0), 1); });
  }

  MemoryRig rig_{"test-2", capped_and_quick(8)};
  TimePoint start_{0};
};

TEST_F(RoomTest, AsksForWhatIsWantedAndTriesAgain) {
  auto other = rig_.alloc(6, gpu(0), 2);
  int asked = 0;
  memory().on_pressure([&](Place at, std::uint64_t size_bytes, TimePoint until) {
    ++asked;
    EXPECT_EQ(at, gpu(0));
    EXPECT_EQ(size_bytes, 3 * page_bytes) << "what is there need not be made";
    EXPECT_GT(until, rig_.machine().clock().now());
    EXPECT_TRUE(memory().chunks().slow_calls().turn().is_free());
    rig_.free(other);
    return some_left;
  });
  const auto allocation = rig_.alloc(5, gpu(0), 1);
  EXPECT_EQ(asked, 1);
  rig_.expect_shown(*allocation);
  memory().check_invariants();
}

TEST_F(RoomTest, GivesTheCacheUpBeforeItAsks) {
  rig_.free(rig_.alloc(8, gpu(0), 2));
  memory().on_pressure([&](Place, std::uint64_t, TimePoint) {
    ADD_FAILURE() << "there was room";
    return nothing_leaves;
  });
  rig_.alloc(8, gpu(0), 1);
}

TEST_F(RoomTest, AsksWhereOnlyTheDriverKnowsThatThereIsNone) {
  int asked = 0;
  memory().on_pressure([&](Place, std::uint64_t size_bytes, TimePoint) {
    ++asked;
    EXPECT_EQ(size_bytes, 2 * page_bytes) << "the first two chunks are there";
    rig_.fail_nothing();
    return some_left;
  });
  rig_.fail({Call::create}, {2, 3});
  const auto allocation = rig_.alloc(4, gpu(0), 1);
  EXPECT_EQ(asked, 1);
  rig_.expect_shown(*allocation);
  memory().check_invariants();
}

TEST_F(RoomTest, EndsAtTheLimitWhereOnlyPromisesAreMade) {
  const auto held = rig_.alloc(6, gpu(0), 2);
  int asked = 0;
  memory().on_pressure([&](Place, std::uint64_t, TimePoint) {
    ++asked;
    return some_left;
  });
  refusal(4);
  EXPECT_GT(asked, 1);
  EXPECT_LE(asked, limit / std::chrono::milliseconds(1) + 1) << "it pauses in between";
  EXPECT_GE(since_start(), limit);
  EXPECT_EQ(rig_.account(gpu(0)).allocated_bytes, 6 * page_bytes);
  memory().check_invariants();
}

TEST_F(RoomTest, WaitsForOthersWhoAreAtWork) {
  auto leaving = rig_.alloc(6, gpu(0), 2);
  int asked = 0;
  memory().on_pressure([&](Place, std::uint64_t, TimePoint) {
    if (++asked == 3) rig_.free(leaving);
    return others_at_work;
  });
  rig_.expect_shown(*rig_.alloc(5, gpu(0), 1));
  EXPECT_EQ(asked, 3);
  memory().check_invariants();
}

TEST_F(RoomTest, BelievesARefusalAndAThrowAtOnce) {
  int asked = 0;
  memory().on_pressure([&](Place, std::uint64_t, TimePoint) {
    ++asked;
    return nothing_leaves;
  });
  refusal(9);
  EXPECT_EQ(asked, 1);
  memory().on_pressure([&](Place, std::uint64_t, TimePoint) -> MemoryPressure::Answer {
    ++asked;
    throw std::runtime_error("on purpose");
  });
  refusal(9);
  EXPECT_EQ(asked, 2);
  memory().on_pressure(nullptr);
  refusal(9);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(rig_.account(gpu(0)).allocated_bytes, 0u);
  memory().check_invariants();
}

TEST(Room, AsksNobodyWhereTheLimitIsZero) {
  MemoryLimits limits = capped_and_quick(8);
  limits.pressure_limit = {};
  MemoryRig rig("test-2", limits);
  rig.memory().on_pressure([&](Place, std::uint64_t, TimePoint) {
    ADD_FAILURE() << "it is turned off";
    return some_left;
  });
  expect_error(ErrorKind::out_of_memory, [&] { rig.alloc(9, gpu(0), 1); });
}

TEST_F(RoomTest, SaysWhoHoldsMostAndWhetherItMayMove) {
  AllocOptions options;
  std::vector<std::shared_ptr<Allocation>> kept;
  EXPECT_TRUE(says(refusal(9), "; allocations at gpu(0): none"));
  options.tag = "weights";
  options.movable = false;
  kept.push_back(memory().alloc(2 * page_bytes, gpu(0), options));
  kept.push_back(rig_.alloc(1, host(0)));
  kept.push_back(rig_.alloc(3, gpu(0)));
  const Error few = refusal(9);
  EXPECT_TRUE(says(few, fmt::format("; allocations at gpu(0): {:#x} {}, \"weights\" {} (pinned)",
                                    to_integer(kept[2]->begin()), bytes_text(3 * page_bytes),
                                    bytes_text(2 * page_bytes))))
      << few.what();
  EXPECT_FALSE(says(few, "more"));
  for (int i = 0; i < 3; ++i) kept.push_back(rig_.alloc(1, gpu(0)));
  EXPECT_FALSE(says(refusal(9), "more")) << "five";
  rig_.free(kept[2]);
  for (int i = 0; i < 2; ++i) kept.push_back(rig_.alloc(1, gpu(0)));
  const Error many = refusal(9);
  EXPECT_TRUE(says(many, "\"weights\"")) << many.what();
  EXPECT_TRUE(says(many, ", and 1 more")) << many.what();
  EXPECT_EQ(many.call(), "vma::alloc");
}

TEST_F(RoomTest, ChangesACapacityWithoutTakingAnythingBack) {
  const auto held = rig_.alloc(6, gpu(0), 2);
  EXPECT_EQ(memory().chunks().room_bytes(gpu(0)), 2 * page_bytes);
  memory().chunks().set_capacity(gpu(0), 4 * page_bytes);
  EXPECT_EQ(memory().chunks().room_bytes(gpu(0)), 0u);
  memory().check_invariants();
  refusal(1);
  expect_error(ErrorKind::out_of_memory,
               [&] { memory().chunks().reserve(gpu(0), page_bytes, page_bytes); });
  rig_.expect_shown(*held);
  rig_.free(held);
  memory().check_invariants();
  EXPECT_EQ(memory().chunks().room_bytes(gpu(0)), 2 * page_bytes)
      << "keeper and spare have the rest";
  const auto two = rig_.alloc(2, gpu(0), 1);
  refusal(1);
  memory().chunks().set_capacity(gpu(0), UINT64_MAX);
  const auto many = rig_.alloc(100, gpu(0), 10);
  memory().check_invariants();
  expect_error(ErrorKind::invalid_argument,
               [&] { memory().chunks().set_capacity(gpu(5), page_bytes); });
}

}  // namespace
}  // namespace vma
