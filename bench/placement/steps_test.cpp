// Goal: readers run in lockstep, none hangs when another one stops, and only whole steps count.
// Method: threads that wait for each other, and a clock that the test sets.
#include "bench/placement/steps.hpp"

#include "base/executor.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace vma {
namespace {

using namespace std::chrono_literals;

class SetClock : public Clock {
 public:
  TimePoint now() const override { return time; }
  std::chrono::steady_clock::time_point wake_time(TimePoint) const override { return {}; }
  TimePoint time{0};
};

TEST(Steps, NobodyIsAStepAhead) {
  constexpr std::size_t readers = 3;
  constexpr int steps_made = 200;
  SteadyClock clock;
  Steps steps(readers, clock);
  std::vector<std::atomic<int>> done(readers);
  std::atomic<int> ahead{0};
  ThreadedExecutor executor;
  std::vector<std::unique_ptr<Task>> tasks;
  for (std::size_t reader = 0; reader < readers; ++reader) {
    tasks.push_back(executor.spawn("steps", [&, reader] {
      for (int step = 1; step <= steps_made; ++step) {
        done[reader] = step;
        steps.add(1);
        if (!steps.finish_share()) return;
        for (const auto& other : done) ahead += other < step ? 1 : 0;
      }
    }));
  }
  for (const auto& task : tasks) task->join();
  EXPECT_EQ(ahead, 0);
  EXPECT_EQ(steps.bytes(), readers * steps_made);
}

TEST(Steps, EndLetsGoWhoWaitsAndWhoComesLater) {
  SteadyClock clock;
  Steps steps(2, clock);
  ThreadedExecutor executor;
  bool goes_on = true;
  const auto waiting = executor.spawn("steps", [&] { goes_on = steps.finish_share(); });
  steps.end();  // May run before or after the other thread waits; both must end.
  waiting->join();
  EXPECT_FALSE(goes_on);
  EXPECT_FALSE(steps.finish_share());
}

TEST(Steps, OneReaderNeverWaits) {
  SteadyClock clock;
  Steps steps(1, clock);
  for (int step = 0; step < 3; ++step) EXPECT_TRUE(steps.finish_share());
}

TEST(Steps, RateIsThatOfWholeSteps) {
  SetClock clock;
  Steps steps(1, clock);
  clock.time = 1s;
  steps.begin_look();
  steps.add(70);  // Ends a step that had begun before.
  clock.time = 2s;
  steps.finish_share();
  steps.add(300);
  clock.time = 5s;
  steps.finish_share();
  steps.add(7);
  clock.time = 9s;
  EXPECT_DOUBLE_EQ(steps.rate(), 300.0 / 3);
}

TEST(Steps, HasNoRateBeforeSomethingIsReadAndTimePasses) {
  SetClock clock;
  Steps steps(1, clock);
  steps.add(10);
  steps.begin_look();
  clock.time = 1s;
  EXPECT_FALSE(steps.has_rate());
  steps.begin_look();
  steps.add(10);
  steps.finish_share();
  EXPECT_FALSE(steps.has_rate());
  EXPECT_EQ(steps.rate(), 0);
  clock.time = 2s;
  EXPECT_TRUE(steps.has_rate());
  EXPECT_DOUBLE_EQ(steps.rate(), 10);
}

TEST(Steps, RateIsThatOfAllTheTimeWhereNoStepIsWhole) {
  SetClock clock;
  Steps steps(1, clock);
  steps.begin_look();
  steps.add(30);
  clock.time = 1s;
  steps.finish_share();
  steps.add(90);
  clock.time = 4s;
  EXPECT_DOUBLE_EQ(steps.rate(), 120.0 / 4);
}

}  // namespace
}  // namespace vma
