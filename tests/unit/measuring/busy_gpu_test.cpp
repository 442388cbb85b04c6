// Goal: rounds of work last as long as requested, however short a launch is, and short rounds use
// unchanged launches. Method: a simulated machine with threads, whose launches take as long as this
// computer needs to read the bytes, and a driver that records the launches of each round.
#include "measuring/busy_gpu.hpp"

#include "base/mutex.hpp"
#include "base/units.hpp"
#include "support/drivers/intercept_driver.hpp"
#include "machine/machine_file.hpp"
#include "runtime/runtime_parts.hpp"
#include "sim/sim_driver.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// The launches between two waits for their stream.
struct Round {
  Time took{0};
  std::vector<std::uint64_t> passes;  // One entry per launch.
};

class RoundsDriver final : public InterceptDriver {
 public:
  using InterceptDriver::InterceptDriver;

  /// From now on launches do nothing and take no time.
  void drop_launches() { dropped_ = true; }

  void launch(BoundStream stream, KernelHandle kernel, LaunchShape shape,
              const KernelArguments& arguments) override {
    {
      const MutexLock lock(mutex_);
      if (round_.passes.empty()) began_ = steady_clock::now();
      round_.passes.push_back(arguments.at<std::uint64_t>(2));
    }
    if (!dropped_) InterceptDriver::launch(stream, kernel, shape, arguments);
  }

  bool wait_stream(BoundStream stream, TimePoint deadline) override {
    const bool done = InterceptDriver::wait_stream(stream, deadline);
    const MutexLock lock(mutex_);
    if (round_.passes.empty()) return done;
    round_.took = steady_clock::now() - began_;
    rounds_.push_back(std::exchange(round_, {}));
    ended_.notify_all();
    return done;
  }

  /// The next `count` rounds to end.
  std::vector<Round> next_rounds(std::size_t count) {
    MutexLock lock(mutex_);
    rounds_.clear();
    ended_.wait(lock, [&]() VMART_REQUIRES(mutex_) { return rounds_.size() > count; });
    return {rounds_.begin() + 1, rounds_.end()};  // The first one may have begun before this call.
  }

 private:
  void around(Call, const std::function<void()>& body) override { body(); }

  std::atomic<bool> dropped_{false};
  Mutex mutex_;
  Condition ended_;
  steady_clock::time_point began_ VMART_GUARDED_BY(mutex_);
  Round round_ VMART_GUARDED_BY(mutex_);
  std::vector<Round> rounds_ VMART_GUARDED_BY(mutex_);
};

/// A runtime on one simulated GPU whose rounds are recorded.
class BusyGpuTest : public testing::Test {
 protected:
  BusyGpuTest() : runtime_(open()) {}

  std::vector<Round> rounds_of(const BusyGpu::Work& work) {
    constexpr std::size_t count = 5;
    const BusyGpu busy(runtime_, gpu(0), work, executor_);
    std::vector<Round> rounds = driver_->next_rounds(count);
    busy.require_works();
    return rounds;
  }

  RoundsDriver* driver_ = nullptr;
  Runtime runtime_;
  ThreadedExecutor executor_;

 private:
  Runtime open() {
    RuntimeOptions options;
    options.driver = "sim:test-2";
    options.prepare = false;  // The check of suspension launches kernels, too.
    auto driver =
        std::make_unique<RoundsDriver>(std::make_unique<SimDriver>(load_machine("test-2")));
    driver_ = driver.get();
    return runtime_of(std::make_unique<RuntimeParts>(std::move(driver), resolve_settings(options)));
  }
};

Time middle(std::vector<Round> rounds) {
  std::ranges::sort(rounds, {}, &Round::took);
  return rounds.at(rounds.size() / 2).took;
}

// A plain launch takes about ten microseconds, so that a round would need thousands; on a busy
// computer it may take milliseconds.
TEST_F(BusyGpuTest, LongRoundsLastAsAskedHoweverShortALaunchIs) {
  const std::vector<Round> rounds = rounds_of({4 * KiB, milliseconds(240)});
  // The computer may have been busier when the rounds were sized than now.
  EXPECT_GE(middle(rounds), milliseconds(24)) << "16 plain launches take a fraction of that";
  for (const Round& round : rounds) {
    EXPECT_EQ(round.passes.size(), 16u) << "few are launched before a gate can come";
    EXPECT_GT(round.passes.front(), 4u);
  }
}

TEST_F(BusyGpuTest, ShortRoundsAreOfLaunchesAsTheyAre) {
  for (const Round& round : rounds_of({4 * MiB, milliseconds(1)})) {
    EXPECT_LE(round.passes.size(), 16u);
    for (const std::uint64_t passes : round.passes) EXPECT_EQ(passes, 4u);
  }
  for (const Round& round : rounds_of({64 * KiB, Time(0)})) {
    EXPECT_EQ(round.passes, std::vector<std::uint64_t>{4}) << "none is asked for";
  }
}

TEST_F(BusyGpuTest, RefusesRoundsThatNoReadingMakesLongEnough) {
  const std::size_t before = runtime_.stats().allocations;
  driver_->drop_launches();
  try {
    const BusyGpu busy(runtime_, gpu(0), {4 * KiB, milliseconds(60)}, executor_);
    FAIL() << "rounds take no time";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_NE(std::string(error.what()).find("ms instead of 60.0 ms"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(runtime_.stats().allocations, before);
}

}  // namespace
}  // namespace vma
