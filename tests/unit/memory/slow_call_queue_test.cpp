// Goal: slow calls run one at a time, in order and under the turn; a job with a condition runs once
// the condition holds; no job is dropped at the end.
#include "unit/memory/memory_rig.hpp"

#include "base/executor.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace vma {
namespace {

class SlowCallQueueTest : public testing::Test {
 protected:
  MemoryRig rig_;
  SlowCallQueue slow_calls_{rig_.driver()};
};

TEST_F(SlowCallQueueTest, DoesWhatIsPostedInOrderUnderTheTurn) {
  std::vector<int> done;
  std::atomic<int> without_turn{0};
  std::thread::id thread;
  for (int i = 0; i < 100; ++i) {
    slow_calls_.post([&, i] {
      if (slow_calls_.turn().is_free()) ++without_turn;
      thread = std::this_thread::get_id();
      done.push_back(i);
    });
  }
  slow_calls_.await_empty();
  std::vector<int> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(done, expected);
  EXPECT_EQ(without_turn, 0);
  EXPECT_NE(thread, std::this_thread::get_id());
  // The last job counts as done just before the slow-call thread releases the turn.
  EXPECT_TRUE(comes_true([&] { return slow_calls_.turn().is_free(); }));
}

TEST_F(SlowCallQueueTest, WaitsForTheTurn) {
  std::atomic<bool> done{false};
  {
    const MutexLock turn(slow_calls_.turn());
    slow_calls_.post([&] { done = true; });
    // The slow-call thread may be anywhere before the turn, but not past it.
    std::this_thread::yield();
    EXPECT_FALSE(done);
  }
  slow_calls_.await_empty();
  EXPECT_TRUE(done);
}

TEST_F(SlowCallQueueTest, DoesWhatIsReadyAndKeepsTheRestWaiting) {
  std::atomic<bool> ready{false}, done{false}, never_done{false};
  std::atomic<int> asked{0};
  slow_calls_.post_when([&] { return ++asked, ready.load(); }, [&] { done = true; });
  slow_calls_.post_when([] { return false; }, [&] { never_done = true; });
  EXPECT_TRUE(comes_true([&] { return asked > 3; })) << "it is asked now and then";
  EXPECT_FALSE(done);
  slow_calls_.await_empty();  // Does not wait for jobs that are not ready.
  ready = true;
  EXPECT_TRUE(comes_true([&] { return done.load(); }));
  EXPECT_FALSE(never_done);
  slow_calls_.stop();  // Runs the job, ready or not, while the objects it uses still exist.
}

TEST_F(SlowCallQueueTest, AsksWithoutTheTurn) {
  std::atomic<bool> asked{false};
  {
    const MutexLock turn(slow_calls_.turn());  // As a hold does.
    slow_calls_.post_when([&] { return asked = true; }, [] {});
    EXPECT_TRUE(comes_true([&] { return asked.load(); }));
  }
  slow_calls_.stop();
}

TEST_F(SlowCallQueueTest, RunsHereWhatWasPosted) {
  std::thread::id thread;
  {
    const MutexLock turn(slow_calls_.turn());
    std::atomic<bool> first{false};
    slow_calls_.post([&] { first = true; });
    slow_calls_.post([&] { thread = std::this_thread::get_id(); });
    // The slow-call thread may already have taken the first job; it waits for the turn.
    slow_calls_.run_here();
  }
  slow_calls_.await_empty();
  EXPECT_NE(thread, std::thread::id());
}

TEST_F(SlowCallQueueTest, TakesWhatAJobPosts) {
  std::atomic<int> done{0};
  slow_calls_.post([&] {
    ++done;
    slow_calls_.post([&] { ++done; });
  });
  slow_calls_.await_empty();
  EXPECT_EQ(done, 2);
}

TEST_F(SlowCallQueueTest, ReleasesWhatAJobOwnsInsideTheTurn) {
  std::atomic<int> inside{0};
  struct Owner {
    SlowCallQueue& slow_calls;
    std::atomic<int>& inside;
    ~Owner() { inside = slow_calls.turn().is_free() ? -1 : 1; }
  };
  auto owner = std::make_shared<Owner>(slow_calls_, inside);
  slow_calls_.post([owner = std::move(owner)] {});
  slow_calls_.await_empty();
  EXPECT_EQ(inside, 1);
}

TEST_F(SlowCallQueueTest, DropsNothingWhenItStopsAndStopsTwice) {
  std::atomic<int> done{0}, waited{0};
  for (int i = 0; i < 50; ++i) slow_calls_.post([&] { ++done; });
  slow_calls_.post_when([] { return false; }, [&] { ++waited; });
  slow_calls_.stop();
  EXPECT_EQ(done, 50);
  EXPECT_EQ(waited, 1) << "what it holds must be given back at the end";
  slow_calls_.stop();
  EXPECT_EQ(waited, 1);
}

TEST_F(SlowCallQueueTest, DrainsAllSteps) {
  int steps = 0;
  slow_calls_.post_steps([&] { return ++steps < 5; });
  slow_calls_.await_empty();
  EXPECT_EQ(steps, 5);
}

TEST_F(SlowCallQueueTest, LeavesTheTurnBetweenSteps) {
  constexpr int most = 100'000;  // They would take longer than half a minute.
  std::atomic<int> steps{0};
  std::atomic<bool> enough{false};
  slow_calls_.post_steps([&] { return ++steps < most && !enough; });
  EXPECT_TRUE(comes_true([&] { return steps > 0; }));
  {
    const MutexLock turn(slow_calls_.turn());
    enough = true;
  }
  slow_calls_.await_empty();
  EXPECT_LT(steps, most);
}

TEST_F(SlowCallQueueTest, DoesJobsBetweenSteps) {
  std::vector<std::string> done;
  slow_calls_.post_steps([&] {
    done.push_back("step");
    if (done.size() > 1) return false;
    slow_calls_.post([&] { done.push_back("job"); });
    return true;
  });
  slow_calls_.await_empty();
  EXPECT_EQ(done, (std::vector<std::string>{"step", "job", "step"}));
}

TEST_F(SlowCallQueueTest, TakesNoStepForOneThatWaitsForRoom) {
  bool done = false;
  {
    const MutexLock turn(slow_calls_.turn());
    slow_calls_.post_steps([&] { return !(done = true); });
    slow_calls_.run_here();
    EXPECT_FALSE(done);
  }
  slow_calls_.await_empty();
  EXPECT_TRUE(done);
}

TEST_F(SlowCallQueueTest, TakesNoFurtherStepWhenItStops) {
  std::atomic<int> steps{0};
  slow_calls_.post_steps([&] { return ++steps > 0; });
  EXPECT_TRUE(comes_true([&] { return steps > 0; }));
  slow_calls_.stop();
  const int at_end = steps;
  EXPECT_GT(at_end, 0);
  slow_calls_.await_empty();
  EXPECT_EQ(steps, at_end);
}

TEST_F(SlowCallQueueTest, TakesWorkFromManyThreads) {
  std::atomic<int> done{0};
  ThreadedExecutor executor;
  std::vector<std::unique_ptr<Task>> tasks;
  for (int i = 0; i < 4; ++i) {
    tasks.push_back(executor.spawn("poster", [&] {
      for (int round = 0; round < 100; ++round) {
        if (round % 3 == 0) {
          slow_calls_.post_when([] { return true; }, [&] { ++done; });
        } else {
          slow_calls_.post([&] { ++done; });
        }
        if (round % 25 == 0) slow_calls_.await_empty();
      }
    }));
  }
  for (const auto& task : tasks) task->join();
  EXPECT_TRUE(comes_true([&] { return done == 400; }));
}

}  // namespace
}  // namespace vma
