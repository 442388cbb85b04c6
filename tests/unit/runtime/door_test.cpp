// Goal: once a door is closed, nobody enters, and the closing thread continues only after the last
// call has left. Method: threads that enter and leave, and check what the closing thread destroys.
#include "runtime/door.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace vma {
namespace {

TEST(Door, LetsNobodyInOnceClosed) {
  Door door;
  Door::Counter* const inside = door.enter();
  ASSERT_NE(inside, nullptr);
  door.leave(*inside);
  door.stop_accepting();
  EXPECT_EQ(door.enter(), nullptr);
  door.finish();
  door.stop_accepting();
  door.finish();
}

TEST(Door, IsEmptyWhenTheLastCallHasLeft) {
  constexpr int rounds = 300, callers = 3;
  for (int round = 0; round < rounds; ++round) {
    Door door;
    std::atomic<bool> open{true};
    std::atomic<int> started{0}, late{0};
    std::vector<std::thread> threads;
    for (int caller = 0; caller < callers; ++caller) {
      threads.emplace_back([&] {
        ++started;
        while (Door::Counter* const inside = door.enter()) {
          Door::Counter* const nested = door.enter();  // A call may make another call.
          if (nested != nullptr) door.leave(*nested);
          if (!open) ++late;
          door.leave(*inside);
        }
      });
    }
    while (started < callers) std::this_thread::yield();
    door.stop_accepting();
    door.finish();
    open = false;
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(late, 0) << "round " << round;
  }
}

TEST(Door, WaitsForACallThatLeavesOnAnotherThread) {
  auto door = std::make_unique<Door>();
  Door::Counter* const inside = door->enter();
  door->stop_accepting();
  std::atomic<bool> leaving{false};
  std::thread leaver([&] {
    leaving = true;
    door->leave(*inside);
  });
  door->finish();
  EXPECT_TRUE(leaving);
  leaver.join();
}

}  // namespace
}  // namespace vma
