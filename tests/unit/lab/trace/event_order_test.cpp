// Goal: events may be added out of order and come out in order; an event that does not fit is
// refused before it reaches a trace.

#include "lab/trace/event_order.hpp"
#include "support/test_run.hpp"
#include "unit/lab/trace/trace_rig.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>

namespace vma {
namespace {

TEST(EventOrder, HandsOnByTimeAndThoseOfOneTimeAsTheyCame) {
  KeepingSink sink;
  EventOrder order(sink);
  order.add(allocation(5, 1, 10).event);
  order.add(free_of(9, 1).event);
  order.add(access(7, 1, 1).event);
  order.add(access(7, 1, 2).event);
  order.add(access(7, 1, 3).event);
  order.advance(Time(7));
  EXPECT_EQ(order.waiting(), 4u) << "one may still come at 7";
  order.add(access(7, 1, 4).event);
  order.finish();
  EXPECT_EQ(sink.events, (std::vector{allocation(5, 1, 10), access(7, 1, 1), access(7, 1, 2),
                                      access(7, 1, 3), access(7, 1, 4), free_of(9, 1)}));
  EXPECT_FALSE(sink.finished);
}

TEST(EventOrder, HoldsOnlyWhatLiesAhead) {
  KeepingSink sink;
  EventOrder order(sink);
  order.add(allocation(0, 1, 10).event);
  std::mt19937_64 random(run_seed());
  std::size_t most = 0;
  for (std::int64_t now = 0; now < 100'000; now += 10) {
    order.advance(Time(now));
    order.add(access(now + static_cast<std::int64_t>(random() % 1000), 1, 1).event);
    most = std::max(most, order.waiting());
  }
  order.finish();
  EXPECT_LE(most, 102u);
  EXPECT_EQ(sink.events.size(), 10'001u);
  EXPECT_TRUE(std::is_sorted(
      sink.events.begin(), sink.events.end(),
      [](const ToldEvent& a, const ToldEvent& b) { return a.event.time < b.event.time; }));
}

TEST(EventOrder, RefusesWhatComesTooLate) {
  KeepingSink sink;
  EventOrder order(sink);
  order.advance(Time(10));
  EXPECT_NE(error_of([&] { order.add(access(9, 1, 1).event); }), "");
}

TEST(EventOrder, KeepsATaskTogether) {
  KeepingSink sink;
  EventOrder order(sink);
  std::vector<ToldEvent> events{allocation(5, 1, 10), task_of(5, 1),     access(5, 1, 1),
                                task_of(5, 2),        after_of(5, 2, 1), access(5, 1, 2)};
  events[2].event.task = 1;
  events[5].event.task = 2;
  for (const ToldEvent& told : events) order.add(told.event);
  order.add(allocation(4, 2, 10).event);
  order.finish();
  events.insert(events.begin(), allocation(4, 2, 10));
  EXPECT_EQ(sink.events, events);
}

TEST(EventOrder, RefusesAPredecessorThatComesLater) {
  KeepingSink sink;
  EventOrder order(sink);
  order.add(task_of(5, 1).event);
  order.add(after_of(5, 1, 2).event);
  order.add(task_of(6, 2).event);
  EXPECT_NE(error_of([&] { order.finish(); }).find("at 5 ns: task 2 is not declared"),
            std::string::npos);
}

TEST(EventOrder, RefusesWhatDoesNotFit) {
  KeepingSink sink;
  EventOrder order(sink);
  order.add(access(3, 4, 1).event);
  EXPECT_NE(error_of([&] { order.add(access(4, 1, 0).event); }).find("it accesses no bytes"),
            std::string::npos);
  EXPECT_NE(error_of([&] { order.finish(); }).find("at 3 ns: object 4 does not exist"),
            std::string::npos);
}

}  // namespace
}  // namespace vma
