// Goal: each router chooses what its name says, and a task stays together.

#include "lab/routing/router.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace vma {
namespace {

using std::chrono::seconds;

TraceEvent use_of(std::uint64_t object, std::uint32_t task = 0) {
  TraceEvent event;
  event.object = object;
  event.task = task;
  return event;
}

const std::vector<DeviceLoad> loads = {{2, 300}, {1, 100}, {5, 100}};

std::size_t choose(Router& router, const TraceEvent& access,
                   std::span<const DeviceLoad> of = loads) {
  return router.choose(std::span(&access, 1), of);
}

std::size_t choose(TaskRouter& router, const TraceEvent& access) {
  return router.choose(std::span(&access, 1), loads);
}

TEST(Router, ChoosesByItsName) {
  const auto turn = make_router("round_robin");
  for (const std::size_t expected : {0, 1, 2, 0}) EXPECT_EQ(choose(*turn, use_of(1)), expected);
  EXPECT_EQ(choose(*make_router("least_loaded"), use_of(1)), 1u);
  const auto object = make_router("object");
  EXPECT_EQ(choose(*object, use_of(4)), 1u);
  object->note(use_of(4), 1);
  const std::vector<DeviceLoad> later = {{0, 0}, {9, 900}, {0, 0}};
  EXPECT_EQ(choose(*object, use_of(4), later), 1u);
  EXPECT_EQ(choose(*object, use_of(5), later), 0u);
  object->forget(4);
  EXPECT_EQ(choose(*object, use_of(4), later), 0u);
}

TEST(Router, OnlyThoseThatReadLoadsDependOnThem) {
  const std::vector<DeviceLoad> other = {{0, 0}, {9, 900}, {9, 900}};
  for (const std::string_view name : router_names()) {
    const bool differs = choose(*make_router(std::string(name)), use_of(1)) !=
                         choose(*make_router(std::string(name)), use_of(1), other);
    EXPECT_EQ(make_router(std::string(name))->reads_loads(), differs) << name;
  }
}

TEST(Router, OfEquallyLoadedDevicesTakesTheOneWithTheFewestAccesses) {
  const std::vector<DeviceLoad> idle(3);
  const auto router = make_router("least_loaded");
  for (const std::size_t expected : {0, 1, 2, 0, 1}) {
    EXPECT_EQ(choose(*router, use_of(1), idle), expected);
    router->note(use_of(1), expected);
  }
  router->note(use_of(1), 2);  // The trace chose it.
  router->note(use_of(1), 2);
  EXPECT_EQ(choose(*router, use_of(1), idle), 0u);
}

TEST(Router, OfNumbersSpreadsObjectsEvenlyAndDependsOnNothingElse) {
  const auto router = make_router("hash");
  std::vector<int> count(3);
  for (std::uint64_t object = 0; object < 3000; ++object) ++count[choose(*router, use_of(object))];
  for (const int each : count) EXPECT_NEAR(each, 1000, 120);
  EXPECT_EQ(choose(*router, use_of(7)), choose(*make_router("hash"), use_of(7)));
}

TEST(Router, OfAnUnknownNameIsRefusedWithTheKnownOnes) {
  try {
    make_router("nearest");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'nearest'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("least_loaded"), std::string::npos);
  }
}

TEST(TaskRouter, KeepsATaskTogetherAndATraceWhereItSays) {
  TaskRouter router(make_router("round_robin"));
  EXPECT_EQ(choose(router, use_of(1, 9)), 0u);
  EXPECT_EQ(choose(router, use_of(2, 9)), 0u);
  EXPECT_EQ(choose(router, use_of(3, 8)), 1u);
  EXPECT_EQ(choose(router, use_of(4, 0)), 2u);
  EXPECT_EQ(choose(router, use_of(5, 0)), 0u);
  TraceEvent placed = use_of(6, 9);
  placed.at = TracePlace(gpu(4));  // From a machine with more GPUs.
  EXPECT_EQ(choose(router, placed), 1u);
}

TEST(TaskRouter, ForgetsTasksOfLongAgo) {
  TaskRouter router(make_router("round_robin"));
  EXPECT_EQ(choose(router, use_of(1, 1)), 0u);
  for (std::uint32_t task = 2; task <= 4097; ++task) choose(router, use_of(1, task));
  EXPECT_EQ(choose(router, use_of(1, 2)), 1u);
  EXPECT_EQ(choose(router, use_of(1, 1)), 4097u % 3);  // Like a new task.
}

/// Sends tasks through a `TaskRouter` of `prefix`, as a replay does.
class Prefix : public testing::Test {
 protected:
  /// A task that uses these objects, of `bytes` each. Returns its device.
  std::size_t task(const std::vector<std::uint64_t>& objects, std::uint64_t bytes = 1) {
    ++number_;
    std::vector<TraceEvent> events;
    for (const std::uint64_t object : objects) {
      TraceEvent event = use_of(object, number_);
      event.time = now;
      event.bytes = bytes;
      events.push_back(event);
      events.push_back(use_of(object + 1000, number_ + 1'000'000));  // Of another task.
    }
    std::size_t device = 0;
    for (std::size_t i = 0; i < events.size(); i += 2)
      device = router_.choose(std::span(events).subspan(i), loads);
    return device;
  }

  /// The trace has the object used there, by no task.
  void use(std::uint64_t object, int device) {
    TraceEvent there = use_of(object);
    there.at = TracePlace(gpu(device));
    router_.choose(std::span(&there, 1), loads);
  }

  TaskRouter router_{make_router("prefix")};
  std::uint32_t number_ = 0;
  Time now{0};
};

TEST_F(Prefix, AConversationStaysWhereItWasAndNewOnesGoByLoad) {
  EXPECT_EQ(task({1, 2, 3}), 0u);
  EXPECT_EQ(task({11, 12}), 1u);
  EXPECT_EQ(task({21}), 2u);
  EXPECT_EQ(task({11, 12, 13}), 1u);
  EXPECT_EQ(task({1, 2, 3, 4}), 0u);
  EXPECT_EQ(task({1, 2, 9}), 0u);
  EXPECT_EQ(task({31}), 2u);
}

TEST_F(Prefix, AnObjectThatAllTasksBeginWithSaysNothing) {
  EXPECT_EQ(task({7, 1}), 0u);
  EXPECT_EQ(task({7, 2}), 0u);  // Until all devices have it, it is a prefix like others.
  use(50, 1);
  use(7, 1);
  use(7, 2);
  EXPECT_EQ(task({7, 3}), 2u);  // All have 7; 0 has done 4 accesses, 1 two and 2 one.
  EXPECT_EQ(task({7, 2, 4}), 0u);
  EXPECT_EQ(task({7, 3, 5}), 2u);
}

/// As the tables of a recommendation model: without the rule, the first device would get all.
TEST_F(Prefix, WhatMostTasksBeginWithSaysNothingEither) {
  for (std::uint32_t i = 0; i < PrefixRouter::common_tasks_least; ++i) EXPECT_EQ(task({7, 8}), 0u);
  EXPECT_EQ(task({7, 8}), 1u);
  EXPECT_EQ(task({7, 8}), 2u);
  // Beyond the common ones, a prefix counts as before.
  EXPECT_EQ(task({7, 8, 9}), 1u);
  EXPECT_EQ(task({7, 8, 9}), 1u);
}

/// Of the 8 tasks after the first, 6 begin with it: three quarters and no more. Then 7 of 9.
TEST_F(Prefix, AnObjectOfThreeQuartersOfTheTasksStillCounts) {
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_EQ(task({20 + i}), i);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(task({20, 20}), 0u);
  EXPECT_EQ(task({20}), 1u);
}

TEST_F(Prefix, AmongEquallyLongPrefixesTakesTheLeastLoaded) {
  EXPECT_EQ(task({1}, 100), 0u);
  use(1, 2);
  EXPECT_EQ(task({1, 2}), 2u);
  EXPECT_EQ(task({1, 3}), 2u);
  EXPECT_EQ(task({9}), 1u);
}

TEST_F(Prefix, ARunEndsWithTheFirstObjectThatADeviceLacks) {
  use(1, 0);
  use(1, 1);
  use(2, 2);
  use(3, 1);
  EXPECT_EQ(task({1, 2, 3}), 0u);  // 1 has done more, and 2 does not have the first.
}

TEST_F(Prefix, AnAccessOfNoTaskIsAllThereIs) {
  use(1, 0);
  use(1, 1);
  use(2, 1);
  EXPECT_EQ(router_.choose(std::vector{use_of(1), use_of(2)}, loads), 0u);
}

TEST_F(Prefix, ADeviceWithMuchMoreWorkThanTheMeanGetsNoMore) {
  const auto excess = static_cast<std::uint64_t>(PrefixRouter::excess_bytes);
  EXPECT_EQ(task({1}, excess), 0u);
  EXPECT_EQ(task({1, 2}, 1), 0u);  // Now there are more bytes than `excess`.
  EXPECT_EQ(task({1, 2}, 1), 1u);
  now = seconds(1);  // None is in flight any more.
  EXPECT_EQ(task({1, 2, 3}, 1), 1u);
  EXPECT_EQ(task({5}, 3 * excess), 2u);
  EXPECT_EQ(task({6}, 3 * excess), 0u);
  EXPECT_EQ(task({7}, 3 * excess), 1u);
  EXPECT_EQ(task({5, 8}, excess), 2u);  // 3 of 3 are no more than 1.5 times the mean.
}

TEST_F(Prefix, WhatWasFreedIsForgotten) {
  EXPECT_EQ(task({1}), 0u);
  EXPECT_EQ(task({1, 2}), 0u);
  router_.forget(1);
  EXPECT_EQ(task({1, 2}), 1u);
}

}  // namespace
}  // namespace vma
