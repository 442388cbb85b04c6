// Goal: background moves wait in order of priority, at most one per allocation at a time, in a
// bounded queue that stays cheap however long it is. Method: the test claims the allocations, so
// that no task is taken before it releases them; measures thread time, not wall time.
#include "migrate/moves/task_queue.hpp"

#include "support/thread_time.hpp"
#include "unit/migrate/moves/move_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;

class Queue : public testing::Test {
 protected:
  /// The classes of `gates` differ in their numbers; 0: it is alone.
  static TaskClass class_number(int number) {
    if (number == 0) return {};
    return {.kind = TaskClass::Kind::gates, .conditions = {.deadline = milliseconds(number)}};
  }
  std::shared_ptr<MigrationTask> push(const std::shared_ptr<Allocation>& allocation, int priority,
                                      TaskClass which = {}) {
    MigrateOptions options;
    options.priority = priority;
    auto task = std::make_shared<MigrationTask>(allocation, SlotRange{0, 1}, gpu(1), options,
                                                MigrationTerms{}, ContextHandle{},
                                                rig_.driver().clock(), callbacks_);
    classes_[task.get()] = std::move(which);
    queue_.push({&task, 1});
    return task;
  }
  std::shared_ptr<MigrationTask> take() {
    return queue_.take([](const TaskClass&) { return true; });
  }
  /// Ends a task that has run.
  void end(const std::shared_ptr<MigrationTask>& task) {
    task->allocation()->end_move();
    queue_.ended(*task);
  }

  MoveRig rig_;
  const std::shared_ptr<Callbacks> callbacks_ = std::make_shared<Callbacks>(rig_.driver());
  std::map<const MigrationTask*, TaskClass> classes_;
  int classified_ = 0;
  TaskQueue queue_{[this](const MigrationTask& task) {
    ++classified_;
    return classes_.at(&task);
  }};
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

TEST_F(Queue, GivesTheFirstOfAWantedClassAndKeepsTheOthers) {
  const TaskClass a = class_number(1), b = class_number(2), c = class_number(3);
  const auto low = push(one_, -1, a), high = push(other_, 1, b);
  const auto are = [](const TaskClass& wanted) {
    return [&wanted](const TaskClass& which) { return which == wanted; };
  };
  EXPECT_EQ(queue_.take([](const TaskClass&) { return false; }), nullptr);
  EXPECT_EQ(queue_.size(), 2u);
  EXPECT_EQ(queue_.first_priority(), 1);
  EXPECT_EQ(queue_.take(are(a)), low);
  const auto next = push(one_, 0, c);
  EXPECT_EQ(queue_.take_of(c), nullptr) << "its allocation moves";
  EXPECT_EQ(queue_.take_of(b), high);
  EXPECT_EQ(queue_.first_priority(), std::nullopt);
  end(low);
  EXPECT_EQ(queue_.take_of(a), nullptr);
  EXPECT_EQ(queue_.take(are(c)), next);
  for (const auto& task : {high, next}) end(task);
  EXPECT_TRUE(queue_.empty());
}

TEST_F(Queue, FindsWhatIsWantedHoweverManyAreBeforeIt) {
  constexpr std::size_t others = 1'500;
  std::vector<std::shared_ptr<Allocation>> allocations;
  for (std::size_t i = 0; i < others; ++i)
    push(allocations.emplace_back(rig_.alloc(1, gpu(0))), 0, class_number(1));
  const auto last = push(one_, 0, class_number(2));
  classified_ = 0;
  int asked = 0;
  EXPECT_EQ(queue_.take([&](const TaskClass& which) {
    ++asked;
    return which == class_number(2);
  }),
            last);
  EXPECT_EQ(asked, 2) << "once for each class";
  EXPECT_EQ(classified_, 1);
  end(last);
}

// A hook was added, say, or a stream attached.
TEST_F(Queue, GivesATaskOfTheClassThatItHasNow) {
  const TaskClass a = class_number(1), b = class_number(2);
  const auto first = push(one_, 0, a), second = push(other_, 0, a);
  classes_[first.get()] = b;
  const std::uint64_t before = queue_.changes();
  EXPECT_EQ(queue_.take_of(a), second);
  EXPECT_GT(queue_.changes(), before) << "others may want the first one now";
  EXPECT_EQ(queue_.take_of(a), nullptr);
  EXPECT_EQ(queue_.take([&](const TaskClass& which) { return which == b; }), first);
  end(first);
  end(second);
}

TEST_F(Queue, KeepsAGroupBackUntilItsTargetsAreReserved) {
  const auto account = std::make_shared<GroupAccount>(rig_.driver().clock(),
                                                      std::vector<MigrationProgress>(2), nullptr);
  const TaskClass kept{.kind = TaskClass::Kind::unreserved, .group = account.get()};
  const auto first = push(one_, 5, kept), second = push(other_, 0, kept);
  EXPECT_EQ(take(), nullptr);
  EXPECT_EQ(queue_.first_priority(), std::nullopt);
  for (const auto& task : {first, second}) classes_[task.get()] = {};
  queue_.reserved(*account);
  EXPECT_EQ(take(), first);
  EXPECT_EQ(take(), second);
  end(first);
  end(second);
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
  EXPECT_FALSE(queue_.any_claimed());
  EXPECT_EQ(take(), second);
  EXPECT_EQ(take(), nullptr);
  EXPECT_TRUE(queue_.any_claimed());
  queue_.look_at_claimed();
  EXPECT_EQ(take(), nullptr);
  one_->end_move();
  queue_.look_at_claimed();
  EXPECT_FALSE(queue_.any_claimed());
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
