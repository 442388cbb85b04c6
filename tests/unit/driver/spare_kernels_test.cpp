// Goal: each spare kernel is used once and only by its own context, their number stays within the
// bound, and a context that is busy or out of memory gets no more loads than needed.
#include "base/executor.hpp"
#include "driver/spare_kernels.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <vector>

namespace vma {
namespace {

/// A clock that only loads advance.
class LoadClock final : public SteadyClock {
 public:
  TimePoint now() const override { return TimePoint(now_); }
  void pass(TimePoint time) { now_ += time.count(); }

 private:
  std::atomic<TimePoint::rep> now_ = 0;
};

class SpareKernelsTest : public testing::Test {
 protected:
  KernelHandle take(std::uint64_t context) {
    return spares_.take(context, clock_, [this] { return load(); });
  }
  KernelHandle load() {
    const int number = loads_++;
    if (number == failing_) throw std::runtime_error("no memory");
    clock_.pass(duration_);
    if (number == slow_) clock_.pass(2 * SpareKernels::quick);
    return KernelHandle{static_cast<std::uint64_t>(number + 1)};
  }

  LoadClock clock_;
  SpareKernels spares_;
  std::atomic<int> loads_ = 0;
  int failing_ = -1, slow_ = -1;
  TimePoint duration_ = std::chrono::microseconds(60);
};

constexpr int kept_max = static_cast<int>(SpareKernels::kept_max);

TEST_F(SpareKernelsTest, AQuickLoadBringsAsManyAsAreKeptAndEachIsUsedOnce) {
  std::set<KernelHandle> taken{take(1)};
  EXPECT_EQ(loads_, 1 + kept_max);
  for (int i = 0; i < kept_max; ++i) taken.insert(take(1));
  EXPECT_EQ(loads_, 1 + kept_max) << "these were spare ones";
  EXPECT_EQ(spares_.count(1), 0u);
  taken.insert(take(1));
  EXPECT_EQ(taken.size(), 2u + SpareKernels::kept_max);
}

TEST_F(SpareKernelsTest, AreOfOneContext) {
  take(1);
  EXPECT_EQ(spares_.count(2), 0u);
  EXPECT_EQ(take(2), KernelHandle(2 + kept_max));
}

TEST_F(SpareKernelsTest, ABusyContextIsLoadedIntoOnceOnly) {
  slow_ = 0;
  take(1);
  EXPECT_EQ(loads_, 1);
  slow_ = 3;  // As if the load waited for other work.
  take(1);
  EXPECT_EQ(loads_, 4);
  EXPECT_EQ(spares_.count(1), 2u) << "the slow one is kept as well";
}

TEST_F(SpareKernelsTest, OnlyTheLoadThatIsNeededMayFail) {
  failing_ = 0;
  EXPECT_THROW(take(1), std::runtime_error);
  EXPECT_EQ(spares_.count(1), 0u);
  failing_ = 3;
  EXPECT_EQ(take(1), KernelHandle{2});
  EXPECT_EQ(spares_.count(1), 1u);
  take(1);
  take(1);
  EXPECT_EQ(spares_.count(1), SpareKernels::kept_max) << "a failure ends its own fill only";
}

TEST_F(SpareKernelsTest, OneFillsWhileOthersLoadWhatTheyNeed) {
  KernelHandle other{};
  spares_.take(1, clock_, [&] {
    const KernelHandle kernel = load();
    if (loads_ == 2) other = take(1);  // As another thread would take one while this thread loads.
    return kernel;
  });
  EXPECT_EQ(other, KernelHandle{3});
  EXPECT_EQ(spares_.count(1), SpareKernels::kept_max);
  EXPECT_EQ(loads_, 2 + kept_max);
}

TEST_F(SpareKernelsTest, ALoadWaitsForAPauseAndAPauseForALoad) {
  ThreadedExecutor executor;
  std::optional<SpareKernels::Pause> pause;
  pause.emplace(spares_, clock_, never);
  EXPECT_TRUE(pause->complete());
  std::atomic<bool> taken = false;
  const auto taker = executor.spawn("taker", [&] {
    spares_.take_unkept([&] {
      // A second pause cannot begin during a load, and gives up.
      const SpareKernels::Pause during(spares_, clock_, TimePoint(0));
      EXPECT_FALSE(during.complete());
      return load();
    });
    taken = true;
  });
  EXPECT_EQ(loads_, 0);
  EXPECT_FALSE(taken);
  pause.reset();
  taker->join();
  EXPECT_EQ(loads_, 1);
  pause.emplace(spares_, clock_, never);
  EXPECT_TRUE(pause->complete()) << "the load has ended";
}

TEST_F(SpareKernelsTest, AFailedLoadKeepsNoPauseWaiting) {
  failing_ = 0;
  EXPECT_THROW(take(1), std::runtime_error);
  EXPECT_TRUE(SpareKernels::Pause(spares_, clock_, TimePoint(0)).complete());
}

TEST_F(SpareKernelsTest, SpareOnesAreTakenDuringAPauseAndNoMoreAreLoaded) {
  std::optional<SpareKernels::Pause> pause;
  spares_.take(1, clock_, [&] {
    if (loads_ == 3) pause.emplace(spares_, clock_, TimePoint(0));  // Two are spare at this time.
    return load();
  });
  EXPECT_FALSE(pause->complete()) << "the last of them was under way";
  EXPECT_EQ(loads_, 4);
  for (int i = 0; i < 3; ++i) take(1);
  EXPECT_EQ(loads_, 4);
}

TEST_F(SpareKernelsTest, ManyThreadsGetDifferentOnesAndKeepNoMoreThanTheBound) {
  constexpr int threads = 8, rounds = 200;
  std::vector<std::vector<KernelHandle>> taken(threads);
  {
    ThreadedExecutor executor;
    std::vector<std::unique_ptr<Task>> tasks;
    for (int i = 0; i < threads; ++i) {
      tasks.push_back(executor.spawn("taker", [&, i] {
        for (int round = 0; round < rounds; ++round) {
          taken[static_cast<std::size_t>(i)].push_back(take(1));
          EXPECT_LE(spares_.count(1), SpareKernels::kept_max);
        }
      }));
    }
    for (const auto& task : tasks) task->join();
  }
  std::set<KernelHandle> all;
  for (const auto& mine : taken) all.insert(mine.begin(), mine.end());
  EXPECT_EQ(all.size(), std::size_t{threads} * rounds);
  EXPECT_EQ(static_cast<std::size_t>(loads_), all.size() + spares_.count(1)) << "none is lost";
}

}  // namespace
}  // namespace vma
