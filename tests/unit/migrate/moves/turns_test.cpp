// Goal: gates and holds take turns with each other and with slow work of other threads. Method: a
// stepped machine; the test holds a turn, or a kernel keeps a gate or a hold waiting, and the
// driver calls meanwhile are counted.
#include "unit/migrate/moves/move_rig.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Two allocations on GPU 0 and an attached stream there.
class TurnsRig : public MoveRig {
 public:
  explicit TurnsRig(const SimOptions& options) : MoveRig("test-2", {}, options) {
    launch_spin(stream, TimePoint(1));  // The first load of a kernel's code waits for the context.
    migrator().attached().attach(stream, Address{});
  }
  ~TurnsRig() { migrator().attached().detach(stream, Address{}); }

  std::shared_ptr<MigrationTask> submit(const std::shared_ptr<Allocation>& allocation, Mode mode,
                                        Place to = gpu(1)) {
    MigrateOptions options;
    options.mode = mode;
    return migrator().submit(allocation, {0, allocation->geometry().slots}, to, options);
  }
  std::unique_ptr<Task> spawn_held_move(Allocation& allocation) {
    return machine().executor().spawn("held move", [&] { move(allocation, gpu(1)); });
  }
  int calls_of_holds() const { return calls(Call::record_context) + calls(Call::hold_context); }

  const BoundStream stream = new_stream(0);
  const std::shared_ptr<Allocation> one = filled(2, gpu(0), 2, 1), other = filled(2, gpu(0), 2, 9);
};

void expect_moved(MigrationTask& task) {
  task.wait();
  EXPECT_EQ(task.report().outcome, Outcome::done);
}

class Turns : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, Turns, testing::Range<std::uint64_t>(1, 5));

// While no stream is stopped, a gate does not hold the turn for slow calls; only its own turn keeps
// other gates off.
TEST_P(Turns, AGateThatWaitsForALongKernelKeepsOtherGatesOff) {
  step(GetParam(), [](const SimOptions& options) {
    TurnsRig rig(options);
    rig.launch_spin(rig.stream, seconds(1));
    rig.forget_calls();
    const auto first = rig.submit(rig.one, Mode::stopped);
    const auto second = rig.submit(rig.other, Mode::stopped, host(0));
    sleep(rig, milliseconds(500));
    EXPECT_EQ(rig.calls(Call::stop), 1);
    expect_moved(*first);
    expect_moved(*second);
    EXPECT_EQ(rig.calls(Call::stop), 2);
  });
}

TEST_P(Turns, AGateThatWaitsForALongKernelLetsAHoldGoFirst) {
  step(GetParam(), [](const SimOptions& options) {
    TurnsRig rig(options);
    rig.launch_spin(rig.stream, seconds(1));
    rig.forget_calls();
    const auto task = rig.submit(rig.one, Mode::stopped);
    sleep(rig, milliseconds(200));
    ASSERT_EQ(rig.calls(Call::stop), 1);
    const auto held = rig.spawn_held_move(*rig.other);
    sleep(rig, milliseconds(300));
    EXPECT_GT(rig.calls_of_holds(), 0);
    held->join();
    EXPECT_EQ(rig.other->place(0), gpu(1));
    expect_moved(*task);
    EXPECT_EQ(rig.calls(Call::stop), 2) << "the first stop was called off";
  });
}

TEST_P(Turns, AHoldKeepsSlowWorkOff) {
  step(GetParam(), [](const SimOptions& options) {
    TurnsRig rig(options);
    rig.launch_spin(rig.stream, milliseconds(500));
    const auto held = rig.spawn_held_move(*rig.one);
    sleep(rig, milliseconds(100));
    EXPECT_TRUE(rig.memory().chunks().slow_calls().turn().is_free()) << "nothing is stopped yet";
    rig.launch_spin(rig.stream, milliseconds(500));
    rig.forget_calls();
    sleep(rig, milliseconds(500));
    ASSERT_GT(rig.calls(Call::hold_context), 0);
    EXPECT_FALSE(rig.memory().chunks().slow_calls().turn().is_free());
    held->join();
    EXPECT_TRUE(rig.memory().chunks().slow_calls().turn().is_free());
    EXPECT_EQ(rig.one->place(0), gpu(1));
  });
}

// The lock of the allocation holds moves back: a stopped one before its gate, a live one before the
// launch of its copy.
TEST_P(Turns, NothingIsStoppedOrLaunchedBesideSlowWork) {
  for (const auto& [mode, call] :
       {std::pair{Mode::stopped, Call::stop}, {Mode::live, Call::launch_graph}}) {
    step(GetParam(), [&, how = mode, watched = call](const SimOptions& options) {
      SCOPED_TRACE(to_string(watched));
      TurnsRig rig(options);
      rig.forget_calls();
      MutexLock operations(rig.one->operations());
      const auto task = rig.submit(rig.one, how);
      sleep(rig, seconds(1));
      {
        const MutexLock slow_work(
            rig.memory().chunks().slow_calls().turn());  // Or another move's gate.
        operations.unlock();
        sleep(rig, milliseconds(50));
        EXPECT_EQ(rig.calls(watched), 0);
      }
      expect_moved(*task);
      EXPECT_GT(rig.calls(watched), 0);
      EXPECT_EQ(task->report().chunks_live, how == Mode::live ? 1 : 0);
    });
  }
}

// Looking at the backlogs needs no turn for slow calls, but launching the settling work does.
TEST_P(Turns, NoSettlingIsLaunchedBesideSlowWorkAfterALook) {
  step(GetParam(), [](const SimOptions& options) {
    TurnsRig rig(options);
    // Loading kernels would wait for a spin kernel.
    const auto warm_up = rig.submit(rig.other, Mode::live);
    expect_moved(*warm_up);
    AttachedStreams& attached = rig.migrator().attached();
    attached.detach(rig.stream, Address{});
    // Two, since the backlog of a single stream is not looked at; new ones, whose backlogs do not
    // vary.
    const std::vector<BoundStream> streams{rig.new_stream(0), rig.new_stream(0)};
    for (const BoundStream stream : streams) {
      attached.attach(stream, Address{});
      rig.launch_spin(stream, seconds(1));
    }
    rig.forget_calls();
    const auto task = rig.submit(rig.one, Mode::live);
    sleep(rig, milliseconds(500));
    EXPECT_EQ(rig.calls(Call::launch), 1) << "the copy, which waits for no stream";
    EXPECT_EQ(rig.calls(Call::launch_graph), 0);
    {
      ASSERT_TRUE(rig.memory().chunks().slow_calls().turn().is_free());
      const MutexLock slow_work(rig.memory().chunks().slow_calls().turn());
      sleep(rig, milliseconds(510));  // The look ends, but is not yet old enough to be repeated.
      EXPECT_TRUE(rig.machine().query_stream(streams[0]));
      EXPECT_EQ(rig.calls(Call::launch_graph), 0);
    }
    expect_moved(*task);
    EXPECT_GT(rig.calls(Call::launch_graph), 0);
    EXPECT_EQ(task->report().chunks_live, 1);
    EXPECT_EQ(task->report().retries, 0);
    for (const BoundStream stream : streams) attached.detach(stream, Address{});
    attached.attach(rig.stream, Address{});  // The rig detaches it.
  });
}

}  // namespace
}  // namespace vma
