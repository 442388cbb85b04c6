// Goal: background moves wait in order of priority, at most one per allocation at a time, in a
// bounded queue that stays cheap however long it is. Method: the test claims the allocations, so
// that no task is taken before it releases them; measures thread time, not wall time.
#include "migrate/moves/task_queue.hpp"
#include "support/thread_time.hpp"
#include "unit/migrate/moves/move_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace vma {
namespace {

class Queue : public testing::Test {
 protected:
  std::shared_ptr<MigrationTask> push(const std::shared_ptr<Allocation>& allocation, int priority) {
    MigrateOptions options;
    options.priority = priority;
    auto task = std::make_shared<MigrationTask>(allocation, SlotRange{0, 1}, gpu(1), options,
                                                MigrationTerms{}, ContextHandle{},
                                                rig_.driver().clock(), callbacks_);
    queue_.push({&task, 1});
    return task;
  }
  std::shared_ptr<MigrationTask> take() {
    return queue_.take([](const MigrationTask&) { return true; });
  }
  /// Ends a task that has run.
  void end(const std::shared_ptr<MigrationTask>& task) {
    task->allocation()->end_move();
    queue_.ended(*task);
  }

  MoveRig rig_;
  const std::shared_ptr<Callbacks> callbacks_ = std::make_shared<Callbacks>(rig_.driver());
  TaskQueue queue_;
  const std::shared_ptr<Allocation> one_ = rig_.alloc(1, gpu(0)), other_ = rig_.alloc(1, gpu(0));
};

TEST_F(Queue, GivesTheHigherPriorityFirstThenTheEarlierOneOfAnAllocationAtATime) {
  const auto low = push(one_, -1), early = push(one_, 0), late = push(other_, 0);
  const auto high = push(one_, 1);
  EXPECT_EQ(queue_.size(), 4u);
  EXPECT_EQ(take(), high);
  EXPECT_EQ(take(), late) << "the others are of an allocation that moves";
  EXPECT_EQ(take(), nullptr);
  const auto higher = push(one_, 2);
  EXPECT_EQ(take(), nullptr);
  end(high);
  EXPECT_EQ(take(), higher);
  end(higher);
  EXPECT_EQ(take(), early);
  end(late);
  end(early);
  EXPECT_EQ(take(), low);
  end(low);
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(take(), nullptr);
}

TEST_F(Queue, GivesTheFirstThatIsWantedAndKeepsTheOthers) {
  const auto low = push(one_, -1), high = push(other_, 1);
  const auto is = [](const std::shared_ptr<MigrationTask>& wanted) {
    return [&wanted](const MigrationTask& task) { return &task == wanted.get(); };
  };
  EXPECT_EQ(queue_.take([](const MigrationTask&) { return false; }), nullptr);
  EXPECT_EQ(queue_.size(), 2u);
  EXPECT_EQ(queue_.take(is(low)), low);
  const auto next = push(one_, 0);
  EXPECT_EQ(queue_.take(is(next)), nullptr) << "its allocation moves";
  EXPECT_EQ(queue_.take(is(high)), high);
  end(low);
  EXPECT_EQ(queue_.take(is(next)), next);
  for (const auto& task : {high, next}) end(task);
  EXPECT_TRUE(queue_.empty());
}

TEST_F(Queue, GivesEqualOnesInTheOrderOfComing) {
  const auto first = push(one_, 0), second = push(one_, 0), third = push(other_, 0);
  EXPECT_EQ(take(), first);
  EXPECT_EQ(take(), third) << "the second one's allocation moves";
  const auto fourth = push(other_, 0);
  end(third);
  end(first);
  EXPECT_EQ(take(), second);
  EXPECT_EQ(take(), fourth);
  end(second);
  end(fourth);
}

TEST_F(Queue, GivesNothingOfAnAllocationBeforeItsLastMoveIsPutAway) {
  const auto first = push(one_, 0), second = push(one_, 0);
  ASSERT_EQ(take(), first);
  const auto third = push(one_, 1);
  one_->end_move();  // The worker has given the claim back and will look at the queue next.
  EXPECT_EQ(take(), nullptr);
  queue_.ended(*first);
  EXPECT_EQ(take(), third);
  end(third);
  EXPECT_EQ(take(), second);
  end(second);
}

TEST_F(Queue, PassesOverAnAllocationThatSomebodyElseMoves) {
  ASSERT_TRUE(one_->try_begin_move());
  const auto first = push(one_, 5), second = push(other_, 0);
  EXPECT_EQ(take(), second);
  EXPECT_EQ(take(), nullptr);
  one_->end_move();
  EXPECT_EQ(take(), first);
  end(first);
  end(second);
}

TEST(MigratorQueue, IsBoundedAndSubmittingStaysCheap) {
  MoveRig rig;
  const auto allocation = rig.alloc(1, gpu(0));
  allocation->begin_move();
  // The time of the fastest of eight batches, at the short and at the long end of the queue. A scan
  // of the queue would take fifteen times as long at the long end.
  constexpr std::size_t batch = TaskQueue::tasks_max / 128;
  std::vector<double> seconds;
  for (std::size_t i = 0; i < TaskQueue::tasks_max; i += batch) {
    const double begin = thread_seconds();
    for (std::size_t each = 0; each < batch; ++each) {
      rig.migrator().submit(allocation, {0, 1}, gpu(1), {});
    }
    seconds.push_back(thread_seconds() - begin);
  }
  const double short_queue = *std::min_element(seconds.begin(), seconds.begin() + 8);
  const double long_queue = *std::min_element(seconds.end() - 8, seconds.end());
  EXPECT_LE(long_queue, 8 * short_queue);
  EXPECT_EQ(rig.migrator().load().waiting, TaskQueue::tasks_max);
  const Error full = expect_error(ErrorKind::busy, [&] {
    rig.migrator().submit(allocation, {0, 1}, gpu(1), {});
  });
  EXPECT_TRUE(says(full, "65536 migrations are queued"));
  EXPECT_TRUE(says(full, "cancel"));
  rig.migrator().stop_accepting();
  allocation->end_move();
  rig.migrator().finish();
  EXPECT_EQ(rig.migrator().load().waiting, 0u);
  rig.free(allocation);
}

/// Its deadline passes only with the fifth wait, as on a simulated machine on a busy computer.
class LateClock : public Clock {
 public:
  TimePoint now() const override { return now_; }
  std::chrono::steady_clock::time_point wake_time(TimePoint) const override {
    return std::chrono::steady_clock::now();
  }
  bool waited(TimePoint deadline) override {
    if (++waits_ < 5) return false;
    now_ = deadline;
    return true;
  }

 private:
  TimePoint now_{0};
  int waits_ = 0;
};

TEST_F(Queue, ATaskIsAwaitedByTheClockOfItsMachine) {
  LateClock clock;
  MigrationTask task(one_, {0, 1}, gpu(1), {}, {}, ContextHandle{}, clock, callbacks_);
  EXPECT_FALSE(task.wait_for(std::chrono::milliseconds(1)));
  EXPECT_EQ(clock.now(), std::chrono::milliseconds(1));
}

}  // namespace
}  // namespace vma
