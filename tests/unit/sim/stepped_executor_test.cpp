// Goal: the order of steps depends on the seed alone, time advances only when no thread can run,
// and threads that wait forever are named. Method: small programs with Mutex and Condition.
#include "support/stepped_executor.hpp"

#include "base/mutex.hpp"
#include "sim/sim_clock.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace vma {
namespace {

/// Three threads each append their letter under a lock; returns the resulting order.
std::string order_of(std::uint64_t seed, std::uint64_t* hash) {
  SteppedExecutor executor({seed, 2});
  std::string order;
  executor.run([&] {
    Mutex mutex;
    std::vector<std::unique_ptr<Task>> tasks;
    for (const char letter : {'a', 'b', 'c'}) {
      tasks.push_back(executor.spawn(std::string(1, letter), [&, letter] {
        for (int i = 0; i < 10; ++i) {
          const MutexLock lock(mutex);
          order += letter;
        }
      }));
    }
    for (const auto& task : tasks) task->join();
  });
  *hash = executor.interleaving_hash();
  return order;
}

TEST(SteppedExecutor, TheSameSeedGivesTheSameOrderAndOthersGiveOthers) {
  std::set<std::string> orders;
  std::set<std::uint64_t> hashes;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::uint64_t first = 0, second = 0;
    const std::string order = order_of(seed, &first);
    EXPECT_EQ(order_of(seed, &second), order) << "seed " << seed;
    EXPECT_EQ(first, second) << "seed " << seed;
    EXPECT_EQ(order.size(), 30u);
    orders.insert(order);
    hashes.insert(first);
  }
  EXPECT_GT(orders.size(), 15u);
  EXPECT_GT(hashes.size(), 15u);
}

TEST(SteppedExecutor, TimeMovesToTheNearestDeadlineOnly) {
  SteppedExecutor executor;
  SimClock clock(&executor);
  std::string order;
  executor.run([&] {
    const auto late = executor.spawn("late", [&] {
      executor.sleep(std::chrono::milliseconds(20));
      order += "late";
    });
    const auto early = executor.spawn("early", [&] {
      executor.sleep(std::chrono::milliseconds(10));
      order += "early ";
    });
    early->join();
    EXPECT_LT(clock.now(), std::chrono::milliseconds(11));
    late->join();
    EXPECT_GE(clock.now(), std::chrono::milliseconds(20));
    EXPECT_LT(clock.now(), std::chrono::milliseconds(21));
  });
  EXPECT_EQ(order, "early late");
}

TEST(SteppedExecutor, AWaitEndsAtItsDeadlineOrWhenItIsReady) {
  SteppedExecutor executor;
  SimClock clock(&executor);
  executor.run([&] {
    Mutex mutex;
    Condition changed;
    bool set = false;
    const auto setter = executor.spawn("setter", [&] {
      executor.sleep(std::chrono::milliseconds(5));
      const MutexLock lock(mutex);
      set = true;
    });
    MutexLock lock(mutex);
    EXPECT_FALSE(
        changed.wait_until(lock, clock, std::chrono::milliseconds(2), [&] { return set; }));
    EXPECT_TRUE(
        changed.wait_until(lock, clock, std::chrono::milliseconds(50), [&] { return set; }));
    EXPECT_LT(clock.now(), std::chrono::milliseconds(6));
    lock.unlock();
    setter->join();
  });
}

TEST(SteppedExecutor, AThreadThatPollsDoesNotStopTheTime) {
  SteppedExecutor executor;
  executor.run([&] {
    bool set = false;
    const auto setter = executor.spawn("setter", [&] {
      executor.sleep(std::chrono::seconds(10));
      set = true;
    });
    Poll poll;
    while (!set) poll.pause();
    setter->join();
  });
  EXPECT_GE(executor.now(), std::chrono::seconds(10));
}

TEST(SteppedExecutor, ADeadLockNamesWhoWaits) {
  SteppedExecutor executor;
  Mutex mutex;
  std::unique_ptr<Task> other;
  bool opened = false;
  try {
    executor.run([&] {
      other = executor.spawn("other one", [&] { executor.wait([&] { return opened; }, never); });
      Condition changed;
      MutexLock lock(mutex);
      changed.wait(lock, [] { return false; });
    });
    FAIL() << "no deadlock was seen";
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("deadlock"), std::string::npos) << what;
    EXPECT_NE(what.find("other one"), std::string::npos) << what;
    EXPECT_NE(what.find("main"), std::string::npos) << what;
  }
  opened = true;  // The machine continues once a thread can run.
  other->join();
}

TEST(SteppedExecutor, WhatTheBodyThrowsComesOut) {
  SteppedExecutor executor;
  EXPECT_THROW(executor.run([] { throw std::runtime_error("body"); }), std::runtime_error);
  executor.run([] {});  // It can run again.
}

TEST(SteppedExecutor, AThreadSpawnedOutsideRunsInsideAndIsJoinedOutside) {
  SteppedExecutor executor;
  int steps = 0;
  const auto task = executor.spawn("outside", [&] {
    executor.sleep(std::chrono::milliseconds(1));
    ++steps;
  });
  EXPECT_EQ(steps, 0);
  task->join();
  EXPECT_EQ(steps, 1);
  EXPECT_EQ(Stepper::current(), nullptr);
}

}  // namespace
}  // namespace vma
