// Goal: slow work is done one at a time, in order, under the turn; what waits for something is done
// once that has come; nothing that was posted is dropped at the end.
#include "unit/memory/memory_rig.hpp"

#include "base/executor.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

namespace vma {
namespace {

class LaneTest : public testing::Test {
 protected:
  MemoryRig rig_;
  Lane lane_{rig_.driver()};
};

TEST_F(LaneTest, DoesWhatIsPostedInOrderUnderTheTurn) {
  std::vector<int> done;
  std::atomic<int> without_turn{0};
  std::thread::id thread;
  for (int i = 0; i < 100; ++i) {
    lane_.post([&, i] {
      if (lane_.turn().is_free()) ++without_turn;
      thread = std::this_thread::get_id();
      done.push_back(i);
    });
  }
  lane_.drain();
  std::vector<int> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(done, expected);
  EXPECT_EQ(without_turn, 0);
  EXPECT_NE(thread, std::this_thread::get_id());
  // The last job counts as done a moment before the lane's thread lets go of the turn.
  EXPECT_TRUE(comes_true([&] { return lane_.turn().is_free(); }));
}

TEST_F(LaneTest, WaitsForTheTurn) {
  std::atomic<bool> done{false};
  {
    const MutexLock turn(lane_.turn());
    lane_.post([&] { done = true; });
    // The lane's thread may be anywhere before the turn; it must not be past it.
    std::this_thread::yield();
    EXPECT_FALSE(done);
  }
  lane_.drain();
  EXPECT_TRUE(done);
}

TEST_F(LaneTest, DoesWhatIsReadyAndKeepsTheRestWaiting) {
  std::atomic<bool> ready{false}, done{false}, never_done{false};
  std::atomic<int> asked{0};
  lane_.post_when([&] { return ++asked, ready.load(); }, [&] { done = true; });
  lane_.post_when([] { return false; }, [&] { never_done = true; });
  EXPECT_TRUE(comes_true([&] { return asked > 3; })) << "it is asked now and then";
  EXPECT_FALSE(done);
  lane_.drain();  // Does not wait for what is not ready.
  ready = true;
  EXPECT_TRUE(comes_true([&] { return done.load(); }));
  EXPECT_FALSE(never_done);
  lane_.stop();  // Runs it, ready or not, while what it touches lives.
}

TEST_F(LaneTest, AsksWithoutTheTurn) {
  std::atomic<bool> asked{false};
  {
    const MutexLock turn(lane_.turn());  // As a hold has it.
    lane_.post_when([&] { return asked = true; }, [] {});
    EXPECT_TRUE(comes_true([&] { return asked.load(); }));
  }
  lane_.stop();
}

TEST_F(LaneTest, RunsHereWhatWasPosted) {
  std::thread::id thread;
  {
    const MutexLock turn(lane_.turn());
    std::atomic<bool> first{false};
    lane_.post([&] { first = true; });
    lane_.post([&] { thread = std::this_thread::get_id(); });
    lane_.run_here();  // The lane's thread may have taken the first already; it waits for the turn.
  }
  lane_.drain();
  EXPECT_NE(thread, std::thread::id());
}

TEST_F(LaneTest, TakesWhatAJobPosts) {
  std::atomic<int> done{0};
  lane_.post([&] {
    ++done;
    lane_.post([&] { ++done; });
  });
  lane_.drain();
  EXPECT_EQ(done, 2);
}

TEST_F(LaneTest, ReleasesWhatAJobOwnsInsideTheTurn) {
  std::atomic<int> inside{0};
  struct Owner {
    Lane& lane;
    std::atomic<int>& inside;
    ~Owner() { inside = lane.turn().is_free() ? -1 : 1; }
  };
  auto owner = std::make_shared<Owner>(lane_, inside);
  lane_.post([owner = std::move(owner)] {});
  lane_.drain();
  EXPECT_EQ(inside, 1);
}

TEST_F(LaneTest, DropsNothingWhenItStopsAndStopsTwice) {
  std::atomic<int> done{0}, waited{0};
  for (int i = 0; i < 50; ++i) lane_.post([&] { ++done; });
  lane_.post_when([] { return false; }, [&] { ++waited; });
  lane_.stop();
  EXPECT_EQ(done, 50);
  EXPECT_EQ(waited, 1) << "what it holds must be given back at the end";
  lane_.stop();
  EXPECT_EQ(waited, 1);
}

TEST_F(LaneTest, TakesWorkFromManyThreads) {
  std::atomic<int> done{0};
  ThreadedExecutor executor;
  std::vector<std::unique_ptr<Task>> tasks;
  for (int i = 0; i < 4; ++i) {
    tasks.push_back(executor.spawn("poster", [&] {
      for (int round = 0; round < 100; ++round) {
        if (round % 3 == 0) {
          lane_.post_when([] { return true; }, [&] { ++done; });
        } else {
          lane_.post([&] { ++done; });
        }
        if (round % 25 == 0) lane_.drain();
      }
    }));
  }
  for (const auto& task : tasks) task->join();
  EXPECT_TRUE(comes_true([&] { return done == 400; }));
}

}  // namespace
}  // namespace vma
