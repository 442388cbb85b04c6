// Goal: writes to a chunk after its live copy began reach the target, even if the memory has become
// read-only since, or the settling work ran too early. Method: moves on a stepped machine, with
// writes at the critical moment.
#include "support/drivers/intercept_driver.hpp"
#include "support/test_kernels.hpp"
#include "unit/migrate/moves/move_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace vma {
namespace {

constexpr std::uint64_t first_word = 1000;

/// The program adds one to every word of the slot on its stream and waits for that.
void add_one(MoveRig& rig, BoundStream stream, const Allocation& allocation, std::size_t slot) {
  SimDriver& machine = rig.machine();
  const KernelHandle kernel = machine.load_kernel(stream.context, add_kernel());
  machine.launch(stream, kernel, {},
                 KernelArguments::of(to_pointer(allocation.slot_begin(slot)),
                                     allocation.geometry().slot_bytes(slot) / 8, std::uint64_t{1}));
  EXPECT_TRUE(machine.wait_stream(stream, never));
  machine.unload_kernel(kernel);
}

void declare(MoveRig& rig, Allocation& allocation, bool read_only) {
  const MutexLock operations(allocation.operations());
  allocation.set_read_only(read_only, rig.topology());
}

MigrationReport move_as(Mode mode, Migrator& migrator,
                        const std::shared_ptr<Allocation>& allocation) {
  MigrateOptions options;
  options.mode = mode;
  options.deadline = std::chrono::hours(1);
  const auto task =
      migrator.submit(allocation, {0, allocation->geometry().slots}, gpu(1), options, {});
  task->wait();
  if (task->error()) std::rethrow_exception(task->error());
  return task->report();
}

class LiveSettling : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, LiveSettling, testing::Range<std::uint64_t>(1, 5));

// The second chunk's hook runs while the first one's copy is complete and waits for its gate.
TEST_P(LiveSettling, FindsWhatWasWrittenBeforeTheMemoryBecameReadOnly) {
  step(GetParam(), [](const SimOptions& options) {
    MoveRig rig("test-2", {}, options);
    const BoundStream stream = rig.new_stream(0);
    rig.migrator().attached().attach(stream, Address{});
    const auto allocation = rig.filled(2, gpu(0), 1, first_word);
    bool read_only = false;
    const std::uint64_t hook = allocation->hooks().add({[&](const MoveEvent& event) {
                                                          if (event.offset == 0 || read_only)
                                                            return;
                                                          ASSERT_EQ(allocation->place(0), gpu(0));
                                                          sleep(rig, std::chrono::seconds(1));
                                                          add_one(rig, stream, *allocation, 0);
                                                          declare(rig, *allocation, true);
                                                          read_only = true;
                                                        },
                                                        {}});
    const MigrationReport report = move_as(Mode::live, rig.migrator(), allocation);
    EXPECT_TRUE(read_only);
    EXPECT_EQ(report.chunks_live, 2);
    EXPECT_EQ(report.bytes_copied_twice, rig.page());
    EXPECT_EQ(rig.wrong(allocation->chunk(0), first_word + 1), 0u);
    EXPECT_EQ(rig.wrong(allocation->chunk(1), first_word + rig.page() / 8), 0u);
    declare(rig, *allocation, false);
    allocation->hooks().remove(hook);
    rig.migrator().attached().detach(stream, Address{});
  });
}

/// Runs a function once: before the first such call after the settling work was enqueued, or, if
/// nothing settles, under the gate.
class MeanwhileDriver : public InterceptDriver {
 public:
  MeanwhileDriver(MoveRig& rig, Call call, std::function<void()> meanwhile)
      : InterceptDriver(static_cast<Driver&>(rig.driver())),
        call_(call),
        meanwhile_(std::move(meanwhile)) {}
  void launch(BoundStream stream, KernelHandle kernel, LaunchShape shape,
              const KernelArguments& arguments) override {
    InterceptDriver::launch(stream, kernel, shape, arguments);
    launched_.push_back(stream);
    if (launched_.size() == 1 && at_copy) at_copy();
  }
  std::function<void()> at_copy;
  void launch_graph(BoundStream stream, ExecGraphHandle graph) override {
    InterceptDriver::launch_graph(stream, graph);
    launched_.push_back(stream);
  }
  void note_stopped(int change) noexcept override { stopped_ += change; }
  bool came() const { return came_; }
  BoundStream settling() const { return launched_.at(copy_and_settling - 1); }

 private:
  static constexpr std::size_t copy_and_settling = 2;

  void around(Call call, const std::function<void()>& body) override {
    const bool settles = launched_.size() == copy_and_settling;
    if (call == call_ && (settles || (launched_.empty() && stopped_ > 0)) && !came_) {
      came_ = true;
      meanwhile_();
    }
    body();
  }

  const Call call_;
  const std::function<void()> meanwhile_;
  std::vector<BoundStream> launched_;
  int stopped_ = 0;
  bool came_ = false;
};

/// A live move of one page, disturbed by `meanwhile`.
struct DisturbedMove {
  DisturbedMove(const SimOptions& options, Call call, std::function<void()> meanwhile)
      : rig("test-2", {}, options),
        stream(rig.new_stream(0)),
        driver(rig, call, std::move(meanwhile)),
        memory(driver, rig.topology(), {}),
        engine(driver, rig.topology(), memory.contexts(), memory.chunks().ledger(),
               memory.chunks().slow_calls().turn()),
        migrator(memory, engine, MigratorLimits{}) {
    migrator.attached().attach(stream, Address{});
    allocation = memory.alloc(rig.page(), gpu(0), {});
    rig.fill(*allocation, first_word);
  }
  ~DisturbedMove() {
    migrator.attached().detach(stream, Address{});
    memory.free(allocation->begin());
  }
  void expect_words(std::uint64_t first) {
    EXPECT_TRUE(driver.came());
    EXPECT_EQ(allocation->place(0), gpu(1));
    EXPECT_EQ(rig.wrong(allocation->chunk(0), first), 0u) << "what was written is lost";
  }

  MoveRig rig;
  const BoundStream stream;
  MeanwhileDriver driver;
  Memory memory;
  CopyEngine engine;
  Migrator migrator;
  std::shared_ptr<Allocation> allocation;
};

// One of our own queries, before anything is stopped, takes longer than settling may be delayed.
TEST_P(LiveSettling, ThatTheWatchdogLetGoIsNotFinal) {
  step(GetParam(), [](const SimOptions& options) {
    DisturbedMove* moved = nullptr;
    DisturbedMove move(options, Call::is_capturing, [&] {
      sleep(moved->rig, std::chrono::minutes(1));
      add_one(moved->rig, moved->stream, *moved->allocation, 0);
    });
    moved = &move;
    move.driver.at_copy = [&] { move.rig.launch_spin(move.stream, std::chrono::milliseconds(5)); };
    const MigrationReport report = move_as(Mode::live, move.migrator, move.allocation);
    EXPECT_EQ(report.chunks_live, 1);
    EXPECT_EQ(report.reasons.at("opened_by_watchdog"), 1);
    move.expect_words(first_word + 1);
  });
}

// A grant requested once the gate is closed takes as long: the gate is open again by then. The
// stream arrives late, so that the grants before it tell nothing.
TEST_P(LiveSettling, IsNotFinalBehindAGateThatTheWatchdogOpened) {
  step(GetParam(), [](const SimOptions& options) {
    DisturbedMove* moved = nullptr;
    DisturbedMove move(options, Call::grant, [&] {
      sleep(moved->rig, std::chrono::minutes(1));
      add_one(moved->rig, moved->stream, *moved->allocation, 0);
    });
    moved = &move;
    move.driver.at_copy = [&] { move.rig.launch_spin(move.stream, std::chrono::milliseconds(5)); };
    const MigrationReport report = move_as(Mode::live, move.migrator, move.allocation);
    EXPECT_EQ(report.chunks_live, 1);
    EXPECT_EQ(report.reasons.at("opened_by_watchdog"), 1);
    move.expect_words(first_word + 1);
  });
}

// The same holds for the copy of a chunk that is moved stopped.
TEST_P(LiveSettling, ACopyBehindAGateThatTheWatchdogOpenedIsMadeAgain) {
  step(GetParam(), [](const SimOptions& options) {
    DisturbedMove* moved = nullptr;
    DisturbedMove move(options, Call::grant, [&] {
      sleep(moved->rig, std::chrono::minutes(1));
      add_one(moved->rig, moved->stream, *moved->allocation, 0);
    });
    moved = &move;
    move.rig.launch_spin(move.stream, std::chrono::milliseconds(5));
    const MigrationReport report = move_as(Mode::stopped, move.migrator, move.allocation);
    EXPECT_EQ(report.chunks_live, 0);
    EXPECT_EQ(report.reasons.at("opened_by_watchdog"), 1);
    move.expect_words(first_word + 1);
  });
}

// As while a thread frees memory: our stop waits for the settling work of its context.
TEST_P(LiveSettling, IsLetGoWithTheGateThatWaitsForIt) {
  step(GetParam(), [](const SimOptions& options) {
    DisturbedMove* moved = nullptr;
    std::chrono::nanoseconds stopped{0};
    DisturbedMove move(options, Call::stop, [&] {
      Clock& clock = moved->rig.machine().clock();
      const TimePoint begin = clock.now();
      EXPECT_TRUE(moved->rig.machine().wait_stream(moved->driver.settling(), never));
      stopped = clock.now() - begin;
    });
    moved = &move;
    EXPECT_EQ(move_as(Mode::live, move.migrator, move.allocation).chunks_moved, 1);
    EXPECT_LT(stopped, std::chrono::seconds(1));
    move.expect_words(first_word);
  });
}

/// Records the longest time from the return of a grant to an unmap under a gate.
class AskedDriver : public InterceptDriver {
 public:
  using InterceptDriver::InterceptDriver;
  void note_stopped(int change) noexcept override { stopped_ += change; }
  TimePoint asked_before{0};
  int unmaps = 0;

 private:
  void around(Call call, const std::function<void()>& body) override {
    if (call == Call::unmap && stopped_ > 0) {
      ++unmaps;
      asked_before = std::max(asked_before, clock().now() - granted_at_);
    }
    body();
    if (call == Call::grant) granted_at_ = clock().now();
  }
  int stopped_ = 0;
  TimePoint granted_at_{0};
};

// A thread in cuCtxDestroy blocks every unmap, and nobody may open the gate once a slot is dark.
TEST_P(LiveSettling, EndsInASwitchOnlyIfAGrantHasReturnedAMomentBefore) {
  step(GetParam(), [](const SimOptions& options) {
    MoveRig rig("test-2", {}, options);
    const BoundStream stream = rig.new_stream(0);
    AskedDriver driver(static_cast<Driver&>(rig.driver()));
    Memory memory(driver, rig.topology(), {});
    CopyEngine engine(driver, rig.topology(), memory.contexts(), memory.chunks().ledger(),
                      memory.chunks().slow_calls().turn());
    MigratorLimits limits;
    limits.gate_limit = std::chrono::seconds(1);
    Migrator migrator(memory, engine, limits);
    migrator.attached().attach(stream, Address{});
    auto allocation = memory.alloc(rig.page(), gpu(0), {});
    rig.delay(Call::wait_event, std::chrono::milliseconds(20));  // The duration of the copy.
    MigrateOptions how;
    how.mode = Mode::stopped;
    const auto task = migrator.submit(allocation, {0, 1}, gpu(1), how, {});
    task->wait();
    EXPECT_EQ(task->report().chunks_moved, 1);
    rig.delay(Call::wait_event, TimePoint(0));
    EXPECT_EQ(driver.unmaps, 1);
    EXPECT_LE(driver.asked_before, std::chrono::milliseconds(1));
    migrator.attached().detach(stream, Address{});
    memory.free(allocation->begin());
    allocation.reset();
  });
}

}  // namespace
}  // namespace vma
