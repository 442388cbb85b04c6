// Goal: hints come out in order, the newest are kept, and the reader is woken without a lock and
// never after it has unregistered.
#include "telemetry/use_log.hpp"

#include "base/executor.hpp"
#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace vma {
namespace {

AdvisedRange hint(std::uint64_t number) {
  AdvisedRange advised;
  advised.address = Address{number};
  return advised;
}

std::vector<std::uint64_t> taken(HintQueue& queue) {
  std::vector<AdvisedRange> hints;
  queue.take(hints);
  std::vector<std::uint64_t> numbers;
  for (const AdvisedRange& one : hints) numbers.push_back(to_integer(one.address));
  return numbers;
}

TEST(HintQueue, KeepsTheNewestAndCountsTheRest) {
  HintQueue queue(3);
  for (std::uint64_t i = 0; i < 5; ++i) queue.push(hint(i));
  EXPECT_EQ(queue.dropped(), 2u);
  EXPECT_EQ(taken(queue), (std::vector<std::uint64_t>{2, 3, 4}));
  EXPECT_TRUE(taken(queue).empty());
  queue.push(hint(9));
  EXPECT_EQ(taken(queue), (std::vector<std::uint64_t>{9}));
  EXPECT_EQ(queue.dropped(), 2u);
}

TEST(HintQueue, WakesOncePerHintWithTheHintThereAndNoLockHeld) {
  HintQueue queue(3);
  std::vector<std::uint64_t> seen;
  queue.wake_with([&] {
    for (const std::uint64_t number : taken(queue)) seen.push_back(number);  // Takes the lock.
  });
  queue.push(hint(1));
  queue.push(hint(2));
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{1, 2}));
  queue.wake_with({});
  queue.push(hint(3));
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_EQ(taken(queue), (std::vector<std::uint64_t>{3}));
}

TEST(HintQueue, GoodbyeWaitsForTheCallUnderWay) {
  HintQueue queue(3);
  std::atomic<bool> inside{false}, may_leave{false}, left{false}, gone{false};
  std::atomic<int> calls{0};
  queue.wake_with([&] {
    if (calls++ > 0) return;
    inside = true;
    EXPECT_TRUE(comes_true([&] { return may_leave.load(); }));
    EXPECT_FALSE(gone.load()) << "the call outlived the goodbye";
    left = true;
  });
  ThreadedExecutor executor;
  const auto adviser = executor.spawn("adviser", [&] { queue.push(hint(1)); });
  ASSERT_TRUE(comes_true([&] { return inside.load(); }));
  const auto leaver = executor.spawn("leaver", [&] {
    queue.wake_with({});
    gone = true;
  });
  // Once a hint wakes nobody, unregistering has begun.
  EXPECT_TRUE(comes_true([&] {
    const int before = calls;
    queue.push(hint(2));
    return calls == before;
  }));
  may_leave = true;
  adviser->join();
  leaver->join();
  EXPECT_TRUE(left.load());
}

}  // namespace
}  // namespace vma
