// Goal: with the whole trace known, what is used most per byte is where it is used, as far as there
// is room; what the trace places stays there.

#include "lab/bounds/loops/hindsight.hpp"
#include "lab/bounds/placement_bounds.hpp"
#include "unit/lab/replay/replay_rig.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace vma {
namespace {

/// Objects of 600 bytes; each is read as often as its number says, by GPU 0.
void fill_loop(ListedTrace& trace, TracePlace first_home = {}) {
  for (std::uint64_t object = 1; object <= 3; ++object)
    trace.alloc(start, object, 600, object == 1 ? first_home : TracePlace());
  trace.task(start, 1, std::chrono::milliseconds(1), {}, 1, on_0);
  for (std::uint64_t object = 1; object <= 3; ++object) {
    trace.access(start, object, 600, on_0).of_task(1);
    trace.last().passes = static_cast<float>(object);
  }
}

ObjectHomes homes_of(ListedTrace& trace, const ReplayRig& rig) {
  return find_loop_bound(trace, rig.machine(), "hash", rig.options).homes;
}

std::vector<TraceEvent> all_of(TraceSource& source) {
  std::vector<TraceEvent> all;
  for (auto events = source.next(); !events.empty(); events = source.next())
    all.insert(all.end(), events.begin(), events.end());
  return all;
}

TEST(Hindsight, PutsWhatIsUsedMostPerByteWhereItIsUsed) {
  ListedTrace trace;
  fill_loop(trace);
  const ReplayRig rig;  // One of them fits into each GPU.
  const ObjectHomes homes = homes_of(trace, rig);
  ASSERT_EQ(homes.size(), 3u);
  EXPECT_EQ(homes.at(3), on_0);
  EXPECT_NE(homes.at(2), on_0);
  EXPECT_NE(homes.at(1), on_0);
}

TEST(Hindsight, LeavesWhatTheTracePlacesAndItsRoom) {
  ListedTrace trace;
  fill_loop(trace, on_0);
  const ReplayRig rig;
  const ObjectHomes homes = homes_of(trace, rig);
  EXPECT_FALSE(homes.contains(1));
  EXPECT_NE(homes.at(3), on_0) << "the first one is there";
}

TEST(Hindsight, UsesRoomAgainThatAnEarlierObjectHad) {
  ListedTrace trace;
  const Time later = std::chrono::seconds(10);
  trace.alloc(start, 1, 600);
  trace.task(start, 1, std::chrono::milliseconds(1), {}, 1, on_0);
  trace.access(start, 1, 600, on_0).of_task(1);
  trace.free(std::chrono::seconds(1), 1);
  trace.alloc(later, 2, 600);
  trace.task(later, 2, std::chrono::milliseconds(1), {}, 1, on_0);
  trace.access(later, 2, 600, on_0).of_task(2);
  const ObjectHomes homes = homes_of(trace, ReplayRig());
  EXPECT_EQ(homes.at(1), on_0);
  EXPECT_EQ(homes.at(2), on_0);
}

TEST(Hindsight, PlacedTraceHasThePlacesAndAllElseOfTheTrace) {
  ListedTrace trace, plain;
  fill_loop(trace, on_1);
  fill_loop(plain, on_1);
  const ObjectHomes homes{{1, on_0}, {2, on_host}};
  PlacedTrace placed(trace, homes);
  const std::vector<TraceEvent> events = all_of(placed), expected = all_of(plain);
  ASSERT_EQ(events.size(), expected.size());
  EXPECT_EQ(events[0].at, on_1) << "the trace names it";
  for (std::size_t i = 0; i < events.size(); ++i) {
    TraceEvent same = expected[i];
    if (i == 1) same.at = on_host;
    EXPECT_EQ(events[i], same) << i;
  }
}

}  // namespace
}  // namespace vma
