// Goal: each job runs once on some thread, and stops and errors take effect in time. Also runs
// under ThreadSanitizer.
#include "base/mutex.hpp"
#include "lab/experiments/job_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

namespace vma {
namespace {

const auto never_stop = [] { return false; };

TEST(JobPool, DoesEachJobOnce) {
  ThreadedExecutor executor;
  for (const std::size_t threads : {0, 1, 3, 16}) {
    SCOPED_TRACE(threads);
    JobPool pool(executor, threads);
    for (const std::size_t count : {0, 1, 2, 500}) {
      std::vector<std::atomic<int>> done(count);
      pool.run(
          count, [&](std::size_t number) { ++done[number]; }, never_stop);
      for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(done[i], 1) << i;
    }
  }
}

TEST(JobPool, DoesJobsBesideEachOther) {
  ThreadedExecutor executor;
  JobPool pool(executor, 3);
  Mutex mutex;
  Condition changed;
  int inside = 0;
  pool.run(
      3,
      [&](std::size_t) {  // No job ends before all have started.
        MutexLock lock(mutex);
        ++inside;
        changed.notify_all();
        changed.wait(lock, [&] { return inside == 3; });
      },
      never_stop);
  EXPECT_EQ(inside, 3);
}

TEST(JobPool, BeginsNothingOnceItIsToStop) {
  ThreadedExecutor executor;
  JobPool pool(executor, 2);
  std::atomic<int> begun = 0;
  pool.run(
      100, [&](std::size_t) { ++begun; }, [&] { return begun >= 5; });
  EXPECT_GE(begun, 5);
  EXPECT_LE(begun, 6);  // One may have been taken along with the fifth.
}

TEST(JobPool, ThrowsWhatTheFirstJobOfThoseThatFailedThrewAndCanBeUsedAgain) {
  ThreadedExecutor executor;
  JobPool pool(executor, 4);
  std::atomic<int> begun = 0;
  const auto fail = [&](std::size_t number) {
    ++begun;
    if (number >= 1) throw std::runtime_error(std::to_string(number));
  };
  try {
    pool.run(1000, fail, never_stop);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "1");
  }
  EXPECT_LE(begun, 2 * 4);
  begun = 0;
  pool.run(
      10, [&](std::size_t) { ++begun; }, never_stop);
  EXPECT_EQ(begun, 10);
}

}  // namespace
}  // namespace vma
