#include "lab/replay/router.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vma {
namespace {

TraceEvent use_of(std::uint64_t object, std::uint32_t task = 0) {
  TraceEvent event;
  event.object = object;
  event.task = task;
  return event;
}

const std::vector<DeviceLoad> loads = {{2, 300}, {1, 100}, {5, 100}};

TEST(Router, ChoosesByItsName) {
  const auto turn = make_router("round_robin");
  for (const std::size_t expected : {0, 1, 2, 0})
    EXPECT_EQ(turn->choose(use_of(1), loads), expected);
  EXPECT_EQ(make_router("least_loaded")->choose(use_of(1), loads), 1u);
  const auto object = make_router("object");
  EXPECT_EQ(object->choose(use_of(4), loads), 1u);
  object->note(4, 1);
  const std::vector<DeviceLoad> later = {{0, 0}, {9, 900}, {0, 0}};
  EXPECT_EQ(object->choose(use_of(4), later), 1u);
  EXPECT_EQ(object->choose(use_of(5), later), 0u);
  object->forget(4);
  EXPECT_EQ(object->choose(use_of(4), later), 0u);
}

TEST(Router, OfNumbersSpreadsObjectsEvenlyAndDependsOnNothingElse) {
  const auto router = make_router("hash");
  std::vector<int> count(3);
  for (std::uint64_t object = 0; object < 3000; ++object)
    ++count[router->choose(use_of(object), loads)];
  for (const int each : count) EXPECT_NEAR(each, 1000, 120);
  EXPECT_EQ(router->choose(use_of(7), loads), make_router("hash")->choose(use_of(7), loads));
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
  EXPECT_EQ(router.choose(use_of(1, 9), loads), 0u);
  EXPECT_EQ(router.choose(use_of(2, 9), loads), 0u);
  EXPECT_EQ(router.choose(use_of(3, 8), loads), 1u);
  EXPECT_EQ(router.choose(use_of(4, 0), loads), 2u);
  EXPECT_EQ(router.choose(use_of(5, 0), loads), 0u);
  TraceEvent placed = use_of(6, 9);
  placed.at = TracePlace(gpu(4));  // From a machine with more GPUs.
  EXPECT_EQ(router.choose(placed, loads), 1u);
}

TEST(TaskRouter, ForgetsTasksOfLongAgo) {
  TaskRouter router(make_router("round_robin"));
  EXPECT_EQ(router.choose(use_of(1, 1), loads), 0u);
  for (std::uint32_t task = 2; task <= 4097; ++task) router.choose(use_of(1, task), loads);
  EXPECT_EQ(router.choose(use_of(1, 2), loads), 1u);
  EXPECT_EQ(router.choose(use_of(1, 1), loads), 4097u % 3);  // Like a new task.
}

}  // namespace
}  // namespace vma
