// Goal: a reader that keeps up misses no event, and one that falls behind learns how many it
// missed.
#include "control/event_feed.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

ControlEvent event(const char* text) {
  ControlEvent made;
  made.text = text;
  return made;
}

TEST(EventRing, HandsOutWhatCameSince) {
  EventRing ring;
  EXPECT_EQ(ring.since(0, 10).next, 0U);
  ring.add(event("a"));
  ring.add(event("b"));
  const ControlEvents first = ring.since(0, 1);
  ASSERT_EQ(first.events.size(), 1U);
  EXPECT_EQ(first.events[0].text, "a");
  EXPECT_EQ(first.next, 1U);
  const ControlEvents second = ring.since(first.next, 10);
  ASSERT_EQ(second.events.size(), 1U);
  EXPECT_EQ(second.events[0].sequence, 2U);
  EXPECT_TRUE(ring.since(second.next, 10).events.empty());
}

TEST(EventRing, CountsWhatWasOverwritten) {
  EventRing ring(3);
  for (int i = 0; i < 10; ++i) ring.add(event("x"));
  EXPECT_EQ(ring.lost(), 7U);
  const ControlEvents found = ring.since(2, 10);
  ASSERT_EQ(found.events.size(), 3U);
  EXPECT_EQ(found.events[0].sequence, 8U);
  EXPECT_EQ(found.lost, 5U);  // Events 3 to 7.
  EXPECT_EQ(ring.since(7, 10).lost, 0U);
  EXPECT_EQ(ring.since(8, 10).events.size(), 2U);
}

TEST(EventRing, StartsAReaderOfAnEarlierProcessAnew) {
  EventRing ring;
  ring.add(event("a"));
  const ControlEvents found = ring.since(UINT64_MAX, 10);
  EXPECT_TRUE(found.events.empty());
  EXPECT_EQ(found.next, 1U);
}

TEST(EventRing, CountsWhatIsRepeatedWhileItIsThere) {
  EventRing ring(2);
  const std::uint64_t first = ring.add({});
  EXPECT_EQ(first, 1U);
  EXPECT_TRUE(ring.repeat(first));
  EXPECT_EQ(ring.since(0, 10).events.at(0).times, 2U);
  ring.add({});
  ring.add({});
  EXPECT_FALSE(ring.repeat(first)) << "it has left the ring";
  EXPECT_FALSE(ring.repeat(9));
}

}  // namespace
}  // namespace vma
