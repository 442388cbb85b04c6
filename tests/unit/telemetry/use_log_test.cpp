// Goal: every recorded use is drained, sampled away or lost, and counted accordingly; several logs
// do not mix their uses.
#include "telemetry/use_log.hpp"

#include "base/executor.hpp"
#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace vma {
namespace {

constexpr std::size_t all = std::numeric_limits<std::size_t>::max();

/// A clock set by the test.
class HandClock : public Clock {
 public:
  TimePoint now() const override { return ++asked, time; }
  std::chrono::steady_clock::time_point wake_time(TimePoint) const override { return {}; }
  TimePoint time{0};
  mutable int asked = 0;
};

Use use_of(std::uint64_t number) {
  return {to_pointer(Address{number}), 1, gpu(0)};
}

std::vector<std::uint64_t> drained(UseLog& log, std::size_t max = all) {
  std::vector<LoggedUse> uses;
  const std::size_t count = log.collect(uses, max);
  EXPECT_EQ(count, uses.size());
  std::vector<std::uint64_t> numbers;
  for (const LoggedUse& use : uses) numbers.push_back(to_integer(use.address));
  return numbers;
}

void on_another_thread(const std::function<void()>& body) {
  ThreadedExecutor executor;
  executor.spawn("another", body)->join();
}

using Numbers = std::vector<std::uint64_t>;

TEST(UseLog, DrainsWhatWasRecorded) {
  const HandClock clock;
  UseLog log(clock);
  EXPECT_TRUE(drained(log).empty());
  EXPECT_EQ(log.counters().threads, 0u);
  log.record(use_of(1));
  const std::vector<Use> batch{use_of(2), use_of(3), use_of(4)};
  log.record(batch);
  log.record(std::span<const Use>());
  EXPECT_EQ(drained(log, 3), (Numbers{1, 2, 3}));
  EXPECT_EQ(drained(log), (Numbers{4}));
  const UseLog::Counters counters = log.counters();
  EXPECT_EQ(counters.recorded, 4u);
  EXPECT_EQ(counters.sampled_away + counters.lost, 0u);
  EXPECT_EQ(counters.threads, 1u);
}

TEST(UseLog, AppendsToWhatIsThere) {
  const HandClock clock;
  UseLog log(clock);
  std::vector<LoggedUse> uses(2);
  log.record(use_of(7));
  EXPECT_EQ(log.collect(uses, all), 1u);
  ASSERT_EQ(uses.size(), 3u);
  EXPECT_EQ(uses[2].address, Address{7});
}

TEST(UseLog, GivesUsesATimeOnlyWhileItIsAskedTo) {
  HandClock clock;
  UseLog log(clock);
  clock.time = TimePoint(5);
  log.record(use_of(0));
  EXPECT_EQ(clock.asked, 0) << "the clock costs as much as all the rest";
  log.timestamps(true);
  const std::vector<Use> batch{use_of(1), use_of(2)};
  log.record(batch);
  clock.time = TimePoint(8);
  log.record(use_of(3));
  EXPECT_EQ(clock.asked, 2) << "a batch has one time";
  log.timestamps(false);
  log.record(use_of(4));
  std::vector<LoggedUse> uses;
  log.collect(uses, all);
  std::vector<TimePoint::rep> times;
  for (const LoggedUse& use : uses) times.push_back(use.at.count());
  EXPECT_EQ(times, (std::vector<TimePoint::rep>{0, 5, 5, 8, 0}));
}

TEST(UseLog, IgnoresEverythingOnceItIsClosed) {
  const HandClock clock;
  UseLog log(clock);
  log.record(use_of(1));
  log.stop_accepting();
  log.timestamps(true);
  log.record(use_of(2));
  log.advise({});
  EXPECT_EQ(drained(log), (Numbers{1}));
  EXPECT_EQ(log.counters().recorded, 1u);
  EXPECT_EQ(log.counters().lost, 0u);
  std::vector<AdvisedRange> hints;
  log.collect_hints(hints);
  EXPECT_TRUE(hints.empty());
}

TEST(UseLog, CountsEveryUseOfAThreadThatIsNotDrained) {
  const HandClock clock;
  UseLogLimits limits;
  limits.ring_entries = 16;
  UseLog log(clock, limits);
  for (std::uint64_t i = 0; i < 5000; ++i) log.record(use_of(i));
  const UseLog::Counters counters = log.counters();
  EXPECT_EQ(counters.recorded, 16u);
  EXPECT_GT(counters.sampled_away, 16u);
  EXPECT_GT(counters.lost, 4000u);
  EXPECT_EQ(counters.recorded + counters.sampled_away + counters.lost, 5000u);
}

TEST(UseLog, KeepsLogsApartOnOneThread) {
  const HandClock clock;
  UseLog first(clock), second(clock);
  for (std::uint64_t i = 0; i < 10; ++i) {
    first.record(use_of(i));
    second.record(use_of(100 + i));
  }
  EXPECT_EQ(drained(first).front(), 0u);
  EXPECT_EQ(drained(second).front(), 100u);
  EXPECT_EQ(first.counters().recorded, 10u);
  EXPECT_EQ(second.counters().recorded, 10u);
  EXPECT_EQ(first.counters().threads, 1u);
}

TEST(UseLog, ANewLogIsNotTakenForADeadOneAtItsPlace) {
  const HandClock clock;
  for (std::uint64_t i = 0; i < 100; ++i) {
    UseLog log(clock);
    log.record(use_of(i));
    EXPECT_EQ(drained(log), (Numbers{i}));
  }
}

TEST(UseLog, DrainsAThreadThatHasEndedThenLetsGoOfItsRing) {
  const HandClock clock;
  UseLog log(clock);
  on_another_thread([&] {
    for (std::uint64_t i = 0; i < 5; ++i) log.record(use_of(i));
  });
  EXPECT_EQ(log.counters().threads, 1u) << "its uses are still to come";
  EXPECT_EQ(drained(log, 2), (Numbers{0, 1}));
  EXPECT_EQ(log.counters().threads, 1u);
  EXPECT_EQ(drained(log), (Numbers{2, 3, 4}));
  EXPECT_EQ(log.counters().threads, 0u);
  EXPECT_EQ(log.counters().recorded, 5u) << "counts outlive the ring";
}

TEST(UseLog, CountsTheUsesOfOneThreadTooManyUntilThereIsRoom) {
  const HandClock clock;
  UseLogLimits limits;
  limits.rings_max = 1;
  UseLog log(clock, limits);
  on_another_thread([&] { log.record(use_of(1)); });
  const std::vector<Use> batch{use_of(2), use_of(3)};
  log.record(batch);
  EXPECT_EQ(log.counters().lost, 2u);
  EXPECT_EQ(drained(log), (Numbers{1}));
  log.record(use_of(4));
  EXPECT_EQ(drained(log), (Numbers{4}));
  EXPECT_EQ(log.counters().recorded, 2u);
  EXPECT_EQ(log.counters().lost, 2u);
}

TEST(UseLog, EveryThreadHasItsTurnThoughOneFillsTheDrain) {
  const HandClock clock;
  UseLog log(clock);
  for (std::uint64_t thread = 0; thread < 3; ++thread) {
    on_another_thread([&] {
      for (int i = 0; i < 100; ++i) log.record(use_of(thread));
    });
  }
  std::vector<bool> seen(3);
  for (int turn = 0; turn < 3; ++turn) seen[drained(log, 10).front()] = true;
  EXPECT_EQ(seen, std::vector<bool>(3, true));
}

/// Records when its thread ends, after everything created later is destroyed.
struct LastWord {
  UseLog* log = nullptr;
  ~LastWord() {
    if (log != nullptr) log->record(use_of(3));
  }
};

TEST(UseLog, AUseOfAThreadThatIsEndingIsCounted) {
  const HandClock clock;
  UseLog log(clock);
  on_another_thread([&] {
    // Created before the thread's ring, destroyed after it.
    static thread_local LastWord last_word;
    last_word.log = &log;
    log.record(use_of(1));
  });
  EXPECT_EQ(log.counters().recorded, 1u);
  EXPECT_EQ(log.counters().lost, 1u);
  EXPECT_EQ(drained(log), (Numbers{1}));
}

TEST(UseLog, HintsComeOutInOrderAndWake) {
  const HandClock clock;
  UseLogLimits limits;
  limits.hints_max = 2;
  UseLog log(clock, limits);
  int woken = 0;
  log.wake_with([&] { ++woken; });
  AdvisedRange advised;
  advised.hint.device = gpu(1);
  for (std::uint64_t i = 0; i < 3; ++i) {
    advised.address = Address{i};
    log.advise(advised);
  }
  EXPECT_EQ(woken, 3);
  std::vector<AdvisedRange> hints;
  log.collect_hints(hints);
  ASSERT_EQ(hints.size(), 2u);
  EXPECT_EQ(hints[0].address, Address{1});
  EXPECT_EQ(hints[1].hint.device, gpu(1));
  EXPECT_EQ(log.counters().hints_dropped, 1u);
}

}  // namespace
}  // namespace vma
