// Goal: changes by the program between two steps of a background move take effect: it pins the
// memory, adds a hook, attaches or destroys a stream, or captures for a long time. Method: a
// stepped machine on which the test holds the move back at the critical step.
#include "support/drivers/intercept_driver.hpp"
#include "driver/spare_kernels.hpp"
#include "unit/migrate/moves/move_rig.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <set>

namespace vma {
namespace {

using std::chrono::milliseconds;

class Meanwhile : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, Meanwhile, testing::Range<std::uint64_t>(1, 5));

std::shared_ptr<MigrationTask> submit(Migrator& migrator,
                                      const std::shared_ptr<Allocation>& allocation,
                                      milliseconds deadline = std::chrono::hours(1)) {
  MigrateOptions options;
  options.mode = Mode::stopped;
  options.deadline = deadline;
  return migrator.submit(allocation, {0, allocation->geometry().slots}, gpu(1), options);
}

Error error_of(MigrationTask& task, ErrorKind kind) {
  task.wait();
  return expect_error(kind, [&] {
    if (task.error()) std::rethrow_exception(task.error());
  });
}

/// A move that has checked whether it may continue and now waits for the lock of the allocation.
struct WaitingMove {
  explicit WaitingMove(const SimOptions& options, milliseconds deadline = std::chrono::hours(1))
      : rig("test-2", {}, options) {
    rig.migrator().attached().attach(stream, Address{});
    lock.emplace(allocation->operations());
    task = submit(rig.migrator(), allocation, deadline);
    sleep(rig, milliseconds(50));
  }
  ~WaitingMove() { rig.migrator().attached().detach(stream, Address{}); }

  MoveRig rig;
  const BoundStream stream = rig.new_stream(0);
  const std::shared_ptr<Allocation> allocation = rig.filled(2, gpu(0), 2, 7);
  std::optional<MutexLock> lock;
  std::shared_ptr<MigrationTask> task;
};

TEST_P(Meanwhile, APinKeepsTheMemoryWhereItIs) {
  step(GetParam(), [](const SimOptions& options) {
    WaitingMove move(options);
    move.allocation->pin();
    move.lock.reset();
    error_of(*move.task, ErrorKind::pinned);
    EXPECT_EQ(move.allocation->place(0), gpu(0));
    move.allocation->unpin();
  });
}

TEST_P(Meanwhile, AHookThatComesIsTold) {
  step(GetParam(), [](const SimOptions& options) {
    WaitingMove move(options);
    int before = 0, after = 0;
    const std::uint64_t hook = move.allocation->hooks().add(
        {[&](const MoveEvent&) {
           ++before;
           EXPECT_EQ(move.allocation->place(0), gpu(0));
         },
         [&](const MoveEvent& event) { after += event.moved ? 1 : 0; }});
    move.lock.reset();
    move.task->wait();
    EXPECT_EQ(move.allocation->place(0), gpu(1));
    EXPECT_EQ(before, 1);
    EXPECT_EQ(after, 1);
    move.allocation->hooks().remove(hook);
  });
}

TEST_P(Meanwhile, AStreamThatIsDestroyedEndsTheMoveAndIsDetached) {
  step(GetParam(), [](const SimOptions& options) {
    WaitingMove move(options);
    AttachedStreams& attached = move.rig.migrator().attached();
    const BoundStream brief =
        move.rig.machine().create_stream(move.rig.context(0), StreamKind::non_blocking);
    attached.attach(brief, Address{});
    move.rig.machine().destroy_stream(brief);
    move.lock.reset();
    const Error error = error_of(*move.task, ErrorKind::invalid_argument);
    EXPECT_TRUE(says(error, "destroyed before they were detached")) << error.what();
    EXPECT_EQ(attached.in_scope(move.allocation->begin()).size(), 1u);
    EXPECT_EQ(move.allocation->place(0), gpu(0));
  });
}

/// Such a try stops nothing, so only the deadline bounds the number of tries.
TEST_P(Meanwhile, ACaptureThatLastsEndsTheMoveAtItsDeadline) {
  step(GetParam(), [](const SimOptions& options) {
    WaitingMove move(options, milliseconds(2'000));
    Clock& clock = move.rig.machine().clock();
    move.rig.machine().begin_capture(move.stream, CaptureMode::relaxed);
    const TimePoint begun = clock.now();
    move.lock.reset();
    const Error error = error_of(*move.task, ErrorKind::busy);
    EXPECT_TRUE(says(error, "captures a graph")) << error.what();
    EXPECT_GT(move.task->report().retries, MigratorLimits{}.gate_retries + 1);
    EXPECT_GE(clock.now() - begun, milliseconds(1'900));
    EXPECT_LE(clock.now() - begun, milliseconds(2'200));
    move.rig.machine().destroy_graph(move.rig.machine().end_capture(move.stream));
  });
}

TEST_P(Meanwhile, ACaptureThatEndsIsWaitedFor) {
  step(GetParam(), [](const SimOptions& options) {
    WaitingMove move(options);
    Clock& clock = move.rig.machine().clock();
    move.rig.machine().begin_capture(move.stream, CaptureMode::relaxed);
    move.lock.reset();
    const TimePoint end = clock.now() + milliseconds(1'500);
    poll_until(clock, end, [] { return false; });
    EXPECT_FALSE(move.task->done());
    move.rig.machine().destroy_graph(move.rig.machine().end_capture(move.stream));
    move.task->wait();
    EXPECT_EQ(move.task->error(), nullptr);
    // It retries every few milliseconds, without increasing delays.
    EXPECT_LE(clock.now() - end, milliseconds(50));
    EXPECT_EQ(move.allocation->place(0), gpu(1));
  });
}

/// The load would wait for the stopped work, and launches would wait for the load.
TEST_P(Meanwhile, ALoadOfCodeIsNotUnderWayBesideAGate) {
  step(GetParam(), [](const SimOptions& options) {
    WaitingMove move(options);
    bool loading = false;
    const auto program = move.rig.machine().executor().spawn("program", [&] {
      SpareKernels::of_process().take_unkept([&] {
        loading = true;
        sleep(move.rig, milliseconds(30));
        EXPECT_EQ(move.allocation->place(0), gpu(0));
        loading = false;
        return KernelHandle{};
      });
    });
    sleep(move.rig, milliseconds(1));
    EXPECT_TRUE(loading);
    move.lock.reset();
    move.task->wait();
    EXPECT_FALSE(loading);
    EXPECT_EQ(move.task->error(), nullptr);
    EXPECT_EQ(move.allocation->place(0), gpu(1));
    EXPECT_GT(move.task->report().reasons["memory_busy"], 0);
    program->join();
  });
}

/// Calls the test before each call that reaches the driver, and counts closed gates.
class WatchedDriver final : public InterceptDriver {
 public:
  explicit WatchedDriver(MoveRig& rig) : InterceptDriver(static_cast<Driver&>(rig.driver())) {}
  void stop(BoundStream stream, ExecGraphHandle chain,
            std::span<const WordOperation> words) override {
    stopped.insert(stream.handle);
    InterceptDriver::stop(stream, chain, words);
  }
  void note_stopped(int change) noexcept override { gates += change; }

  std::function<void(Call)> before = [](Call) {}, after = [](Call) {};
  std::set<StreamHandle> stopped;
  int gates = 0;  // The number of gates that count as closed.

 private:
  void around(Call call, const std::function<void()>& body) override {
    before(call);
    body();
    after(call);
  }
};

/// A move during which a second stream is attached.
struct LateAttachRig {
  explicit LateAttachRig(const SimOptions& options)
      : rig("test-2", {}, options),
        driver(rig),
        memory(driver, rig.topology(), {}),
        engine(driver, rig.topology(), memory.contexts(), memory.chunks().ledger(),
               memory.chunks().slow_calls().turn()),
        migrator(memory, engine, MigratorLimits{}),
        allocation(memory.alloc(rig.page(), gpu(0), {})) {
    migrator.attached().attach(stream, Address{});
  }
  ~LateAttachRig() {
    driver.before = driver.after = [](Call) {};
    attacher->join();
    for (const BoundStream each : {stream, late}) migrator.attached().detach(each, Address{});
    memory.free(allocation->begin());
  }
  void spawn_attacher() {
    attacher = driver.executor().spawn("attacher", [this] {
      migrator.attached().attach(late, Address{});
      attached = true;
    });
  }
  void move() {
    const auto task = submit(migrator, allocation);
    task->wait();
    EXPECT_EQ(task->report().outcome, Outcome::done);
  }

  MoveRig rig;
  const BoundStream stream = rig.new_stream(0), late = rig.new_stream(0);
  WatchedDriver driver;
  Memory memory;
  CopyEngine engine;
  Migrator migrator;
  std::shared_ptr<Allocation> allocation;
  std::unique_ptr<Task> attacher;
  bool attached = false;  // Only one thread runs at a time.
};

TEST_P(Meanwhile, NoStreamIsAttachedWhileASlotIsDark) {
  step(GetParam(), [](const SimOptions& options) {
    LateAttachRig rig(options);
    rig.driver.before = [&](Call call) {
      if (call != Call::unmap || rig.driver.gates == 0 || rig.attacher) return;
      rig.spawn_attacher();
      sleep(rig.rig, milliseconds(50));
      EXPECT_FALSE(rig.attached) << "what runs there finds the slot dark";
    };
    rig.move();
    ASSERT_TRUE(rig.attacher);
  });
}

class AttachedMeanwhile : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, AttachedMeanwhile, testing::Range<std::uint64_t>(1, 65));

// Depending on the seed, the stream is attached before, during or after the planning of the gate.
TEST_P(AttachedMeanwhile, EveryStreamStandsWhereASlotGoesDark) {
  step(GetParam(), [](const SimOptions& options) {
    LateAttachRig rig(options);
    constexpr int before_plan = 2;  // For the target's staging, then the warm-up grant.
    int grants = 0, darks = 0;
    std::optional<MutexLock> attaching;
    rig.driver.before = [&](Call call) {
      if (call == Call::grant && ++grants == 1) {
        attaching.emplace(rig.migrator.attached().attaching());
        rig.spawn_attacher();
      }
      if (call != Call::unmap || rig.driver.gates == 0) return;
      ++darks;
      for (const auto& each : rig.migrator.attached().in_scope(rig.allocation->begin()))
        EXPECT_TRUE(rig.driver.stopped.contains(each.bound.handle)) << "its work may run";
    };
    rig.driver.after = [&](Call call) {
      if (call == Call::grant && grants == before_plan) attaching.reset();
    };
    rig.move();
    EXPECT_EQ(darks, 1);
    EXPECT_FALSE(attaching) << "it was not let go at all";
  });
}

}  // namespace
}  // namespace vma
