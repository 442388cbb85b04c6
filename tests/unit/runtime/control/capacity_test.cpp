// Goal: a capacity holds for what is allocated and for what is there when it falls: the coldest
// leaves, and goes back to the driver. Method: simulated machines, with the scheduler stepped by
// hand.
#include "memory/move_claim.hpp"
#include "unit/memory/memory_rig.hpp"
#include "unit/runtime/runtime_rig.hpp"
#include "unit/runtime/scheduler_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

namespace vma {
namespace {

class CapacityTest : public testing::Test {
 protected:
  using Kind = ControlEvent::Kind;
  static constexpr std::uint64_t chunk = SchedulerRig::chunk_bytes;

  Machinery& parts() { return *parts_of(rig_.runtime()).machinery; }
  ControlTarget& control() { return parts().scheduling->control(); }
  Ledger::Account account(Place at) { return parts().memory.chunks().ledger().account(at); }
  /// Limits what allocations can have on the first GPU.
  std::uint64_t capacity_for(std::uint64_t bytes) {
    return bytes + account(gpu(0)).own_bytes + account(gpu(0)).leaked_bytes;
  }
  ControlEvent end_of(std::uint64_t operation) {
    ControlEvent found;
    EXPECT_TRUE(comes_true([&] {
      for (const ControlEvent& event : control().events(0, 10'000).events) {
        const bool ends =
            event.kind == Kind::operation_done || event.kind == Kind::operation_failed;
        if (event.operation == operation && ends) found = event;
      }
      return found.sequence != 0;
    }));
    return found;
  }
  std::uint64_t* spilled(std::uint64_t chunks) {
    AllocOptions options;
    options.chunk_bytes = chunk;
    options.spill = true;
    return static_cast<std::uint64_t*>(rig_.runtime().alloc(chunks * chunk, gpu(0), options));
  }

  SchedulerRig rig_{"stay_put"};
};

TEST_F(CapacityTest, TheColdestLeavesWhenItFallsAndGoesBackToTheDriver) {
  std::uint64_t* words[4];
  for (auto& each : words) each = rig_.alloc(1, gpu(0));
  rig_.step();
  rig_.pass(std::chrono::seconds(1));
  rig_.use(words[0], 0, 0);
  rig_.use(words[2], 0, 0);
  rig_.step();
  const std::uint64_t before = account(gpu(0)).total();
  const ControlEvent end = end_of(control().start_capacity(gpu(0), capacity_for(2 * chunk)));
  EXPECT_EQ(end.kind, Kind::operation_done) << end.text;
  EXPECT_EQ(end.from, gpu(0));
  EXPECT_EQ(rig_.place(words[0]), gpu(0));
  EXPECT_EQ(rig_.place(words[2]), gpu(0));
  EXPECT_NE(rig_.place(words[1]), gpu(0));
  EXPECT_NE(rig_.place(words[3]), gpu(0));
  EXPECT_EQ(account(gpu(0)).cached_bytes, 0u);
  EXPECT_EQ(end.bytes, before - account(gpu(0)).total());
  EXPECT_GE(end.bytes, 2 * chunk);
  EXPECT_EQ(control().status().places[0].capacity_bytes, capacity_for(2 * chunk))
      << "what was asked for, and not what it leaves to the program";
  EXPECT_EQ(end_of(control().start_capacity(gpu(0), UINT64_MAX)).kind, Kind::operation_done);
  EXPECT_GT(control().status().places[0].capacity_bytes, 100 * chunk);
}

TEST_F(CapacityTest, WhatMayNotMoveIsNamed) {
  std::uint64_t* words = rig_.alloc(1, gpu(0));
  const Pin pin = rig_.runtime().pin(words);
  rig_.step();
  const ControlEvent end = end_of(control().start_capacity(gpu(0), 0));
  EXPECT_EQ(end.kind, Kind::operation_failed);
  EXPECT_NE(end.text.find("8.0 KiB are still above the capacity"), std::string::npos) << end.text;
}

TEST_F(CapacityTest, IsRefusedWhilePausedAndElsewhere) {
  control().pause();
  EXPECT_EQ(kind_of_error([&] { control().start_capacity(gpu(0), 0); }), ErrorKind::busy);
  control().resume();
  EXPECT_EQ(kind_of_error([&] { control().start_capacity(gpu(0), 20); }),
            ErrorKind::invalid_argument)
      << "less than a chunk";
  EXPECT_EQ(kind_of_error([&] { control().start_capacity(gpu(0), UINT64_MAX / 2); }),
            ErrorKind::invalid_argument)
      << "more than there is";
  EXPECT_EQ(kind_of_error([&] { control().start_capacity(gpu(7), 0); }),
            ErrorKind::invalid_argument);
}

TEST_F(CapacityTest, NewMemoryMakesRoomFirstAndThenSpills) {
  rig_.runtime().set_capacity(gpu(0), capacity_for(2 * chunk));
  std::uint64_t* first = spilled(1);
  std::uint64_t* second = spilled(1);
  rig_.step();
  std::uint64_t* third = spilled(1);
  EXPECT_EQ(rig_.place(third), gpu(0)) << "the coldest has made room";
  EXPECT_NE(rig_.place(first), gpu(0));
  EXPECT_EQ(rig_.place(second), gpu(0));
  const Pin pins[] = {rig_.runtime().pin(second), rig_.runtime().pin(third)};
  EXPECT_NE(rig_.place(spilled(1)), gpu(0)) << "nothing can make room";
}

TEST_F(CapacityTest, NewMemorySpillsPastPlacesWhoseRoomMovesTake) {
  Ledger& ledger = parts().memory.chunks().ledger();
  rig_.runtime().set_capacity(gpu(0), account(gpu(0)).total());
  const std::uint64_t taken = 2 * chunk;
  rig_.runtime().set_capacity(gpu(1), account(gpu(1)).total() + taken);
  ASSERT_TRUE(ledger.claim(gpu(1), taken, Ledger::Use::allocated));  // The scheduler does not know.
  std::uint64_t* words = spilled(1);
  EXPECT_EQ(rig_.place(words), host(0));
  ledger.unclaim(gpu(1), taken, Ledger::Use::allocated);
}

TEST_F(CapacityTest, WhatIsLargerThanThePlaceIsDividedAndEvictsNothing) {
  rig_.runtime().set_capacity(gpu(0), capacity_for(3 * chunk));
  std::uint64_t* there = spilled(1);
  rig_.step();
  std::uint64_t* large = spilled(8);
  EXPECT_EQ(rig_.place(there), gpu(0));
  EXPECT_EQ(rig_.place(large, 0), gpu(0));
  EXPECT_EQ(rig_.place(large, 1), gpu(0));
  EXPECT_NE(rig_.place(large, 2), gpu(0));
  AllocOptions plain;
  EXPECT_EQ(kind_of_error([&] { rig_.runtime().alloc(8 * chunk, gpu(0), plain); }),
            ErrorKind::out_of_memory);
}

TEST_F(CapacityTest, RoomIsMadeForOthers) {
  std::uint64_t* cold = rig_.alloc(3, gpu(0));
  rig_.step();
  const std::uint64_t given = rig_.runtime().make_room(gpu(0), 2 * chunk);
  EXPECT_EQ(given, 2 * chunk);
  EXPECT_EQ(account(gpu(0)).allocated_bytes, chunk);
  EXPECT_EQ(account(gpu(0)).cached_bytes, 0u);
  const Pin pin = rig_.runtime().pin(cold);
  EXPECT_EQ(rig_.runtime().make_room(gpu(0), chunk), 0u);
}

}  // namespace
}  // namespace vma
