// Goal: threads that record, start and end during a drain lose no use uncounted, and log and thread
// may end in any order. Also runs under ThreadSanitizer and AddressSanitizer.
#include "base/executor.hpp"
#include "telemetry/use_log.hpp"
#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace vma {
namespace {

constexpr std::size_t all_uses = std::numeric_limits<std::size_t>::max();

class UseLogThreads : public testing::Test {
 protected:
  void spawn(std::function<void()> body) {
    tasks_.push_back(executor_.spawn("recorder", std::move(body)));
  }
  void join() {
    for (const auto& task : tasks_) task->join();
    tasks_.clear();
  }
  SteadyClock clock_;

 private:
  ThreadedExecutor executor_;
  std::vector<std::unique_ptr<Task>> tasks_;
};

TEST_F(UseLogThreads, UsesOfAThreadComeInOrderAndAreAllAccountedFor) {
  constexpr std::uint64_t threads = 4, uses = 50'000;
  UseLogLimits limits;
  limits.ring_entries = 256;
  UseLog log(clock_, limits);
  std::atomic<std::uint64_t> running{threads};
  for (std::uint64_t thread = 0; thread < threads; ++thread) {
    spawn([&, thread] {
      for (std::uint64_t i = 0; i < uses; ++i) {
        log.record({to_pointer(Address{i}), thread + 1, gpu(static_cast<int>(thread))});
      }
      --running;
    });
  }
  std::vector<std::uint64_t> next(threads);
  std::vector<double> weights(threads);
  std::uint64_t drained = 0;
  const auto drain = [&] {
    std::vector<LoggedUse> taken;
    drained += log.collect(taken, 1000);
    for (const LoggedUse& use : taken) {
      const auto thread = static_cast<std::size_t>(use.device);
      ASSERT_EQ(use.bytes, thread + 1) << "no use is torn";
      ASSERT_GE(to_integer(use.address), next[thread]);
      next[thread] = to_integer(use.address) + 1;
      weights[thread] += use.weight;
    }
  };
  while (running > 0) drain();
  join();
  while (log.counters().threads > 0) drain();
  const UseLog::Counters counters = log.counters();
  EXPECT_EQ(counters.recorded, drained);
  EXPECT_EQ(counters.recorded + counters.sampled_away + counters.lost, threads * uses);
}

TEST_F(UseLogThreads, ALogMayEndBeforeItsThreads) {
  constexpr int threads = 3;
  auto first = std::make_unique<UseLog>(clock_);
  UseLog second(clock_);
  std::atomic<int> recorded{0};
  std::atomic<bool> first_is_gone{false};
  for (int thread = 0; thread < threads; ++thread) {
    spawn([&] {
      first->record({nullptr, 1, gpu(0)});
      ++recorded;
      EXPECT_TRUE(comes_true([&] { return first_is_gone.load(); }));
      second.record({nullptr, 1, gpu(0)});
    });
  }
  ASSERT_TRUE(comes_true([&] { return recorded == threads; }));
  first.reset();
  first_is_gone = true;
  join();
  std::vector<LoggedUse> uses;
  EXPECT_EQ(second.collect(uses, all_uses), 3u);
  EXPECT_EQ(second.counters().threads, 0u);
}

TEST_F(UseLogThreads, ThreadsThatComeAndGoLeaveNoRingsBehind) {
  constexpr std::uint64_t rounds = 200, threads = 3;
  UseLogLimits limits;
  limits.ring_entries = 16;
  UseLog log(clock_, limits);
  std::atomic<bool> over{false};
  std::uint64_t drained = 0;
  spawn([&] {
    std::vector<LoggedUse> uses;
    while (!over) {
      uses.clear();
      drained += log.collect(uses, 5);
    }
  });
  ThreadedExecutor executor;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    std::vector<std::unique_ptr<Task>> recorders;
    for (std::uint64_t thread = 0; thread < threads; ++thread) {
      recorders.push_back(executor.spawn("short", [&] {
        for (int i = 0; i < 7; ++i) log.record({nullptr, 1, gpu(0)});
      }));
    }
    for (const auto& recorder : recorders) recorder->join();
  }
  EXPECT_TRUE(comes_true([&] { return log.counters().threads == 0; }));
  over = true;
  join();
  const UseLog::Counters counters = log.counters();
  EXPECT_EQ(counters.recorded, drained);
  EXPECT_EQ(counters.recorded + counters.lost, rounds * threads * 7);
  EXPECT_EQ(counters.sampled_away, 0u) << "seven are less than half of a ring";
}

TEST_F(UseLogThreads, HintsOfManyThreadsAreAllTakenOrDropped) {
  constexpr std::uint64_t threads = 3, hints = 2000;
  UseLogLimits limits;
  limits.hints_max = 64;
  UseLog log(clock_, limits);
  std::atomic<std::uint64_t> woken{0}, running{threads};
  log.wake_with([&] { ++woken; });
  for (std::uint64_t thread = 0; thread < threads; ++thread) {
    spawn([&] {
      for (std::uint64_t i = 0; i < hints; ++i) log.advise({});
      --running;
    });
  }
  std::vector<AdvisedRange> taken;
  while (running > 0) log.collect_hints(taken);
  log.wake_with({});
  join();
  log.collect_hints(taken);
  EXPECT_EQ(taken.size() + log.counters().hints_dropped, threads * hints);
  EXPECT_EQ(woken, threads * hints);
}

}  // namespace
}  // namespace vma
