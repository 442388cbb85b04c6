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
    mover().attached().attach(stream, Address{});
  }
  ~TurnsRig() { mover().attached().detach(stream, Address{}); }

  std::shared_ptr<MigrationTask> submit(const std::shared_ptr<Allocation>& allocation, Mode mode,
                                        Location to = gpu(1)) {
    MigrateOptions options;
    options.mode = mode;
    return mover().submit(allocation, {0, allocation->geometry().slots}, to, options);
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
    EXPECT_EQ(rig.one->home(0), gpu(1));
  });
}

// The lock of the allocation holds moves back: a stopped one before its gate, a live one before the
// launch of its copy.
TEST_P(Turns, NothingIsStoppedOrLaunchedBesideSlowWork) {
  for (const auto& [mode, call] :
       {std::pair{Mode::stopped, Call::stop}, {Mode::live, Call::launch}}) {
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

}  // namespace
}  // namespace vma
