// Goal: Mutex, Condition and Poll behave the same on operating system threads and on a stepped
// machine, where time is virtual and a deadlock is an error. Method: the same bodies on both
// executors.
#include "base/clock.hpp"
#include "base/executor.hpp"
#include "base/mutex.hpp"
#include "support/stepped_executor.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

/// The virtual clock of a stepped executor.
class SteppedClock : public Clock {
 public:
  explicit SteppedClock(const SteppedExecutor& executor) : executor_(executor) {}
  TimePoint now() const override { return executor_.now(); }
  std::chrono::steady_clock::time_point wake_time(TimePoint) const override {
    return std::chrono::steady_clock::now();
  }

 private:
  const SteppedExecutor& executor_;
};

class SeededSteps : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, SeededSteps, testing::Range<std::uint64_t>(1, 11));

/// Four threads increment a plain counter, with separate reads and writes.
int count_together(Executor& executor) {
  constexpr int threads = 4, rounds = 50;
  Mutex mutex;
  int counter = 0;
  std::vector<std::unique_ptr<Task>> tasks;
  for (int i = 0; i < threads; ++i) {
    tasks.push_back(executor.spawn("adder", [&] {
      for (int round = 0; round < rounds; ++round) {
        const MutexLock lock(mutex);
        const int seen = counter;
        if (Stepper* stepper = Stepper::current()) stepper->yield();
        counter = seen + 1;
      }
    }));
  }
  for (const auto& task : tasks) task->join();
  return counter - threads * rounds;
}

/// Two threads take turns incrementing a number. Returns the result minus the expected one: 0.
int play_ping_pong(Executor& executor) {
  constexpr int rounds = 100;
  Mutex mutex;
  Condition changed;
  int turn = 0;
  const auto play = [&](int me) {
    for (int round = 0; round < rounds; ++round) {
      MutexLock lock(mutex);
      changed.wait(lock, [&] { return turn % 2 == me; });
      ++turn;
      changed.notify_all();
    }
  };
  const auto other = executor.spawn("pong", [&] { play(1); });
  play(0);
  other->join();
  return turn - 2 * rounds;
}

TEST(Mutex, ExcludesOnThreads) {
  ThreadedExecutor executor;
  EXPECT_EQ(count_together(executor), 0);
}

TEST_P(SeededSteps, MutexExcludes) {
  SteppedExecutor executor({GetParam(), 1});
  executor.run([&] { EXPECT_EQ(count_together(executor), 0); });
}

TEST(Mutex, SaysWhetherItIsFree) {
  Mutex mutex;
  EXPECT_TRUE(mutex.is_free());
  MutexLock lock(mutex);
  ThreadedExecutor().spawn("asker", [&] { EXPECT_FALSE(mutex.is_free()); })->join();
  lock.unlock();
  EXPECT_TRUE(mutex.is_free());
  lock.lock();
  ThreadedExecutor().spawn("asker", [&] { EXPECT_FALSE(mutex.is_free()); })->join();
}

TEST(Condition, WakesOnThreads) {
  ThreadedExecutor executor;
  EXPECT_EQ(play_ping_pong(executor), 0);
}

TEST_P(SeededSteps, ConditionWakes) {
  SteppedExecutor executor({GetParam(), 2});
  executor.run([&] { EXPECT_EQ(play_ping_pong(executor), 0); });
}

TEST(Condition, GivesUpAtTheDeadlineAndHoldsTheLockAgain) {
  SteadyClock clock;
  Mutex mutex;
  Condition changed;
  MutexLock lock(mutex);
  const TimePoint start = clock.now();
  EXPECT_FALSE(changed.wait_until(lock, clock, start + milliseconds(5), [] { return false; }));
  EXPECT_GE(clock.now() - start, milliseconds(5));
  ThreadedExecutor().spawn("asker", [&] { EXPECT_FALSE(mutex.is_free()); })->join();
}

TEST(Condition, DoesNotWaitForWhatIsReadyHoweverLate) {
  SteadyClock clock;
  Mutex mutex;
  Condition changed;
  MutexLock lock(mutex);
  EXPECT_TRUE(changed.wait_until(lock, clock, TimePoint(0), [] { return true; }));
  EXPECT_FALSE(changed.wait_until(lock, clock, TimePoint(0), [] { return false; }));
}

TEST_P(SeededSteps, ConditionGivesUpInVirtualTime) {
  SteppedExecutor executor({GetParam(), 1});
  executor.run([&] {
    SteppedClock clock(executor);
    Mutex mutex;
    Condition changed;
    MutexLock lock(mutex);
    const TimePoint deadline = executor.now() + std::chrono::hours(5);
    EXPECT_FALSE(changed.wait_until(lock, clock, deadline, [] { return false; }));
    EXPECT_GE(executor.now(), deadline);
  });
}

TEST_P(SeededSteps, AWaitThatNobodyEndsIsADeadLock) {
  SteppedExecutor executor({GetParam(), 1});
  try {
    executor.run([&] {
      Mutex mutex;
      Condition changed;
      MutexLock lock(mutex);
      changed.wait(lock, [] { return false; });
    });
    ADD_FAILURE() << "it came back";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("deadlock"), std::string::npos) << error.what();
  }
}

TEST_P(SeededSteps, PollLetsTheOthersOn) {
  SteppedExecutor executor({GetParam(), 8});
  executor.run([&] {
    std::atomic<bool> ready{false};
    const auto other = executor.spawn("setter", [&] {
      executor.sleep(nanoseconds(500));
      ready = true;
    });
    Poll poll;
    while (!ready) poll.pause();
    other->join();
  });
}

TEST(Poll, NapsInTheEndSoThatOthersGetTheProcessor) {
  std::atomic<bool> ready{false};
  ThreadedExecutor executor;
  Poll poll;
  // Gets past spinning and yielding. An idle computer does all these rounds in far less than a
  // second; on a busy one each nap may take long, hence the limit.
  auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < 20'010; ++round) {
    poll.pause();
    if (std::chrono::steady_clock::now() - start > std::chrono::seconds(1)) break;
  }
  start = std::chrono::steady_clock::now();
  poll.pause();
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::microseconds(20));
  const auto other = executor.spawn("setter", [&] { ready = true; });
  while (!ready) poll.pause();
  other->join();
}

TEST(SteadyClock, GoesOnAndWakesAtItsOwnTime) {
  SteadyClock clock;
  const TimePoint first = clock.now();
  EXPECT_LE(first, clock.now());
  EXPECT_EQ(clock.wake_time(first).time_since_epoch(), first);
}

TEST(ThreadedExecutor, CutsNamesThatAreTooLong) {
  ThreadedExecutor executor;
  std::string name;
  executor
      .spawn("a name of many more letters",
             [&] {
               char text[16] = {};
               // The spawner sets the name, perhaps after the thread has started.
               while (std::string(text) != "a name of many ") {
                 pthread_getname_np(pthread_self(), text, sizeof text);
               }
               name = text;
             })
      ->join();
  EXPECT_EQ(name, "a name of many ");
}

}  // namespace
}  // namespace vma
