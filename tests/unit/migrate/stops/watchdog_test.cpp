// Goal: every armed action runs once, at its deadline, on another thread, however many there are; a
// disarmed one never runs. Method: a stepped machine, where time is virtual.
#include "migrate/stops/watchdog.hpp"

#include "machine/machine_file.hpp"
#include "sim/sim_driver.hpp"
#include "support/stepped_executor.hpp"
#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;

class WatchdogTest : public testing::TestWithParam<std::uint64_t> {
 protected:
  void step(const std::function<void(SimDriver&, SteppedExecutor&)>& body) {
    SteppedExecutor executor({GetParam(), 2});
    SimOptions options;
    options.stepped = &executor;
    executor.run([&] {
      SimDriver machine(load_machine("test-2"), options);
      body(machine, executor);
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Seeds, WatchdogTest, testing::Range<std::uint64_t>(1, 9));

TEST_P(WatchdogTest, RunsOnceWhenTheDeadlineHasPassed) {
  step([](SimDriver& machine, SteppedExecutor& executor) {
    Watchdog watchdog(machine);
    int late = 0;
    const TimePoint deadline = executor.now() + milliseconds(5);
    TimePoint when{0};
    watchdog.arm(deadline, [&] { ++late, when = executor.now(); });
    executor.sleep(milliseconds(4));
    EXPECT_EQ(late, 0);
    executor.sleep(milliseconds(100));
    EXPECT_EQ(late, 1);
    EXPECT_GE(when, deadline);
    EXPECT_LE(when, deadline + milliseconds(1));
  });
}

TEST_P(WatchdogTest, RunsAgainWhenAsked) {
  step([](SimDriver& machine, SteppedExecutor& executor) {
    Watchdog watchdog(machine);
    const TimePoint start = executor.now();
    std::vector<TimePoint> runs;
    const auto ticket = watchdog.arm_repeatedly(start + milliseconds(5), [&] {
      runs.push_back(executor.now());
      return runs.size() < 3 ? executor.now() + milliseconds(10) : never;
    });
    executor.sleep(milliseconds(7));
    EXPECT_EQ(runs.size(), 1u);
    watchdog.rearm(ticket, start + milliseconds(9));
    executor.sleep(milliseconds(100));
    ASSERT_EQ(runs.size(), 3u);
    EXPECT_LT(runs[1], start + milliseconds(11)) << "its deadline was moved between two runs";
  });
}

TEST_P(WatchdogTest, DoesNotRunWhatWasDisarmed) {
  step([](SimDriver& machine, SteppedExecutor& executor) {
    Watchdog watchdog(machine);
    int late = 0;
    for (int round = 0; round < 5; ++round) {
      const auto ticket = watchdog.arm(executor.now() + milliseconds(5), [&] { ++late; });
      executor.sleep(milliseconds(3));
      watchdog.disarm(ticket);
    }
    executor.sleep(milliseconds(100));
    EXPECT_EQ(late, 0);
  });
}

TEST_P(WatchdogTest, TakesAnEarlierDeadlineAfterALaterOne) {
  step([](SimDriver& machine, SteppedExecutor& executor) {
    Watchdog watchdog(machine);
    int first = 0, second = 0;
    watchdog.disarm(watchdog.arm(executor.now() + milliseconds(1000), [&] { ++first; }));
    watchdog.arm(executor.now() + milliseconds(2), [&] { ++second; });
    executor.sleep(milliseconds(10));
    EXPECT_EQ(first, 0);
    EXPECT_EQ(second, 1);
    // Armed after an earlier one ran.
    watchdog.arm(executor.now() + milliseconds(2), [&] { ++first; });
    executor.sleep(milliseconds(10));
    EXPECT_EQ(first, 1);
  });
}

TEST_P(WatchdogTest, RunsSeveralEachAtItsOwnDeadline) {
  step([](SimDriver& machine, SteppedExecutor& executor) {
    Watchdog watchdog(machine);
    constexpr int count = 5;
    std::array<int, count> late{};
    std::array<Watchdog::Ticket, count> tickets{};
    const TimePoint start = executor.now();
    for (int i = 0; i < count; ++i) {  // The latest deadline first.
      const auto n = static_cast<std::size_t>(count - 1 - i);
      tickets[n] = watchdog.arm(start + milliseconds(10 * (count - i)), [&late, n] { ++late[n]; });
    }
    executor.sleep(milliseconds(25));
    EXPECT_EQ(late, (std::array{1, 1, 0, 0, 0}));
    watchdog.disarm(tickets[2]);
    watchdog.disarm(tickets[0]);  // It has already run.
    executor.sleep(milliseconds(500));
    EXPECT_EQ(late, (std::array{1, 1, 0, 1, 1}));
  });
}

TEST_P(WatchdogTest, GoesByTheDeadlineThatItWasGivenLast) {
  step([](SimDriver& machine, SteppedExecutor& executor) {
    Watchdog watchdog(machine);
    int put_off = 0, brought_forward = 0;
    const TimePoint start = executor.now();
    const auto first = watchdog.arm(start + milliseconds(10), [&] { ++put_off; });
    const auto second = watchdog.arm(start + milliseconds(1000), [&] { ++brought_forward; });
    watchdog.rearm(first, start + milliseconds(100));
    executor.sleep(milliseconds(5));
    watchdog.rearm(second, start + milliseconds(20));
    executor.sleep(milliseconds(45));
    EXPECT_EQ(put_off, 0);
    EXPECT_EQ(brought_forward, 1);
    watchdog.rearm(second, executor.now() + milliseconds(1));  // It has already run.
    executor.sleep(milliseconds(100));
    EXPECT_EQ(put_off, 1);
    EXPECT_EQ(brought_forward, 1);
  });
}

TEST(Watchdog, NeverRunsWhatWasDisarmed) {
  SimDriver machine(load_machine("test-2"));
  Watchdog watchdog(machine);
  ThreadedExecutor threads;
  std::vector<std::unique_ptr<Task>> users;
  for (int i = 0; i < 2; ++i) {
    users.push_back(threads.spawn("user", [&] {
      for (int round = 0; round < 500; ++round) {
        std::atomic<bool> over{false};
        const auto ticket = watchdog.arm(machine.clock().now() + std::chrono::microseconds(round),
                                         [&] { EXPECT_FALSE(over); });
        watchdog.disarm(ticket);
        over = true;
      }
    }));
  }
  for (const auto& user : users) user->join();
}

TEST(Watchdog, WakesForADeadlineThatWasBroughtForward) {
  SimDriver machine(load_machine("test-2"));
  Watchdog watchdog(machine);
  std::atomic<bool> late{false};
  const TimePoint now = machine.clock().now();
  const auto ticket = watchdog.arm(now + std::chrono::hours(1), [&] { late = true; });
  EXPECT_FALSE(poll_until(machine.clock(), now + milliseconds(5), [&] { return late.load(); }));
  watchdog.rearm(ticket, now + milliseconds(10));
  EXPECT_TRUE(comes_true([&] { return late.load(); }));
}

/// Takes that many nanoseconds of this computer's time, and almost none of the machine's.
Kernel busy_kernel() {
  return {"", "busy", [](DeviceView&, const KernelArguments& arguments, LaunchShape) {
            const auto end = std::chrono::steady_clock::now() +
                             std::chrono::nanoseconds(arguments.at<std::uint64_t>(0));
            while (std::chrono::steady_clock::now() < end) {
            }
          }};
}

/// Runs until the flag at the given address is set.
Kernel endless_kernel() {
  return {"", "endless", [](DeviceView&, const KernelArguments& arguments, LaunchShape) {
            const auto* over = arguments.at<const std::atomic<bool>*>(0);
            Poll poll;
            while (!*over) poll.pause();
          }};
}

/// Operating system threads and a kernel that takes this computer far longer than the simulated
/// machine.
class SlowComputer : public testing::Test {
 protected:
  void launch(milliseconds real_time) {
    machine_.launch(stream_, kernel_, {},
                    KernelArguments::of(std::uint64_t(TimePoint(real_time).count())));
    const WordOperation write{WordOperation::Kind::write, address_of(word_), 1};
    machine_.batch(stream_, {&write, 1});
  }
  bool done() const { return std::atomic_ref<std::uint64_t>(*word_).load() == 1; }
  TimePoint in(TimePoint time) { return machine_.clock().now() + time; }

  SimDriver machine_{load_machine("test-2")};
  const ContextHandle context_ = machine_.retain_primary(DeviceId{0});
  const BoundStream stream_ = machine_.create_stream(context_, StreamKind::non_blocking);
  const KernelHandle kernel_ = machine_.load_kernel(context_, busy_kernel());
  std::uint64_t* const word_ =
      static_cast<std::uint64_t*>(machine_.allocate_pinned(context_, 2 * sizeof(std::uint64_t)));
  Watchdog watchdog_{machine_};
};

TEST_F(SlowComputer, IsNotLateByTheMachinesClock) {
  std::atomic<bool> late{false};
  const Measuring measuring(machine_.clock());
  const auto ticket = watchdog_.arm(in(milliseconds(5)), [&] { late = true; });
  launch(milliseconds(100));
  EXPECT_TRUE(poll_until(machine_.clock(), in(milliseconds(2)), [&] { return done(); }));
  EXPECT_FALSE(late);
  watchdog_.disarm(ticket);
}

TEST_F(SlowComputer, IsLateOnceNothingOfItsWorkCanGoOn) {
  std::atomic<bool> late{false};
  const Measuring measuring(machine_.clock());
  const WordOperation wait{WordOperation::Kind::wait_until_at_least, address_of(word_ + 1), 1};
  std::atomic_ref<std::uint64_t>(word_[1]).store(0);
  machine_.batch(stream_, {&wait, 1});
  launch(milliseconds(1));  // Waits behind the stopped stream.
  EXPECT_FALSE(poll_until(machine_.clock(), in(milliseconds(2)), [&] { return done(); }));
  watchdog_.arm(in(milliseconds(5)), [&] { late = true; });
  EXPECT_FALSE(poll_until(machine_.clock(), in(milliseconds(6)), [&] { return done(); }));
  EXPECT_TRUE(comes_true([&] { return late.load(); }));
  std::atomic_ref<std::uint64_t>(word_[1]).store(1);
  machine_.wait_stream(stream_, never);
}

TEST_F(SlowComputer, IsLateWhereACallStands) {
  std::atomic<bool> late{false}, over{false};
  const Measuring measuring(machine_.clock());
  const KernelHandle endless = machine_.load_kernel(context_, endless_kernel());
  machine_.launch(stream_, endless, {}, KernelArguments::of(&over));
  watchdog_.arm(in(milliseconds(5)), [&] { late = true; });
  {
    const Stopped standing(machine_.clock());
    EXPECT_TRUE(comes_true([&] { return late.load(); }));
  }
  over = true;
  machine_.wait_stream(stream_, never);
}

TEST_P(WatchdogTest, EndsWhileItIsArmed) {
  step([](SimDriver& machine, SteppedExecutor& executor) {
    int late = 0;
    {
      Watchdog watchdog(machine);
      watchdog.arm(executor.now() + milliseconds(5), [&] { ++late; });
    }
    executor.sleep(milliseconds(50));
    EXPECT_EQ(late, 0);
  });
}

}  // namespace
}  // namespace vma
