// Goal: one gate moves as many chunks as its time allows; whatever ends a batch in between, each
// chunk is whole at its source or at its target, and the report says which. Method: moves on a
// stepped machine, disturbed between two chunks of a batch.
#include "migrate/stops/stall_budget.hpp"
#include "support/suspension_finding.hpp"
#include "support/test_kernels.hpp"
#include "unit/migrate/live/batch_rig.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace vma {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
constexpr std::uint64_t chunks = batch_chunks;
constexpr std::uint64_t seed_word = batch_seed_word;

class Batch : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, Batch, testing::Range<std::uint64_t>(1, 5));

TEST_P(Batch, OneGateMovesAllChunksThatItsTimeAllows) {
  step(GetParam(), [](const SimOptions& options) {
    BatchRig rig(options);
    const MigrationReport report = rig.move(gpu(1), milliseconds(500));
    EXPECT_EQ(report.chunks_live, static_cast<int>(chunks));
    EXPECT_EQ(report.stall.count, 1u);
    rig.expect_moved(chunks);
  });
}

TEST_P(Batch, AShortLimitGivesEachChunkAGateOfItsOwn) {
  step(GetParam(), [](const SimOptions& options) {
    BatchRig rig(options);
    const MigrationReport report = rig.move(gpu(1), microseconds(1));
    EXPECT_EQ(report.chunks_live, static_cast<int>(chunks));
    EXPECT_EQ(report.stall.count, chunks);
    rig.expect_moved(chunks);
  });
}

TEST_P(Batch, ChunksThatAreCopiedUnderAGateShareIt) {
  step(GetParam(), [](const SimOptions& options) {
    BatchRig rig(options);
    EXPECT_EQ(rig.move(host(0), milliseconds(500)).stall.count, 1u);
    const MigrationReport back = rig.move(gpu(1), milliseconds(500));
    EXPECT_EQ(back.chunks_live, 0) << "host memory moves stopped";
    EXPECT_EQ(back.chunks_moved, static_cast<int>(chunks));
    EXPECT_EQ(back.stall.count, 1u);
    rig.expect_moved(chunks);
  });
}

// The gate takes longer than predicted: it opens, and the next one moves the others.
TEST_P(Batch, TheGateOpensWhenItsTimeIsUp) {
  step(GetParam(), [](const SimOptions& options) {
    BatchRig rig(options);
    constexpr milliseconds max_stall(20);
    rig.driver.before_unmap = [&](int number) {
      if (number == 3) sleep(rig.rig, max_stall);
    };
    const MigrationReport report = rig.move(gpu(1), max_stall);
    EXPECT_EQ(report.chunks_moved, static_cast<int>(chunks));
    EXPECT_EQ(report.chunks_live, static_cast<int>(chunks));
    EXPECT_EQ(report.retries, 0) << "it made progress";
    EXPECT_EQ(report.stall.count, 2u);
    EXPECT_LT(report.stall.max, max_stall * 3 / 2);
    rig.expect_moved(chunks);
  });
}

// What it takes to suspend and to resume counts, and as many chunks as fit share it.
TEST_P(Batch, ASuspensionCountsFromOffToOn) {
  step(GetParam(), [](const SimOptions& options) {
    MigratorLimits limits;
    limits.suspends = true;
    BatchRig rig(options, limits);
    for (int i = 0; i < 2; ++i) {
      const SuspensionFinding found =
          decided_finding(rig.migrator, rig.driver.clock(), DeviceId{i});
      EXPECT_EQ(found.state, SuspensionFinding::State::usable) << found.why;
    }
    const auto whole = rig.move(gpu(1), milliseconds(500)).stall;  // From here on costs are known.
    EXPECT_EQ(whole.count, 1u);
    const auto max_stall =
        GateShare::overhead + std::chrono::duration_cast<microseconds>(whole.max * 2 / 3);
    const MigrationReport report = rig.move(gpu(0), max_stall);
    EXPECT_EQ(report.chunks_moved, static_cast<int>(chunks));
    EXPECT_EQ(report.stall.count, 2u);
    EXPECT_LE(report.stall.max, max_stall);
  });
}

TEST_P(Batch, ACancelledMoveEndsBetweenTwoChunks) {
  step(GetParam(), [](const SimOptions& options) {
    BatchRig rig(options);
    std::shared_ptr<MigrationTask> task;
    rig.driver.before_unmap = [&](int number) {
      if (number == 3) task->cancel();
    };
    task = rig.submit(gpu(1), milliseconds(500));
    task->wait();
    EXPECT_EQ(task->report().outcome, Outcome::cancelled);
    EXPECT_EQ(task->report().chunks_moved, 3);
    rig.expect_moved(3);
    rig.driver.before_unmap = nullptr;
    EXPECT_EQ(rig.move(gpu(1), milliseconds(500)).chunks_moved, static_cast<int>(chunks) - 3);
    rig.expect_moved(chunks);
  });
}

TEST_P(Batch, AFailedUnmapLeavesTheChunksBehindIt) {
  step(GetParam(), [](const SimOptions& options) {
    BatchRig rig(options);
    rig.driver.before_unmap = [&](int number) {
      if (number == 4) throw Error(ErrorKind::driver_failure, "cuMemUnmap", "told to fail");
    };
    const auto task = rig.submit(gpu(1), milliseconds(500));
    task->wait();
    rig.driver.before_unmap = nullptr;
    const MigrationReport report = task->report();
    EXPECT_EQ(report.outcome, Outcome::partly);
    EXPECT_EQ(report.chunks_moved, 3);
    ASSERT_EQ(report.failures.size(), 1u);
    EXPECT_EQ(report.failures[0].offset, 3 * rig.rig.page());
    EXPECT_FALSE(report.failures[0].poisoned);
    rig.expect_moved(3);
  });
}

/// Adds one to each word of the chunk.
void add_one(BatchRig& rig, std::size_t slot) {
  SimDriver& machine = rig.rig.machine();
  const KernelHandle kernel = machine.load_kernel(rig.stream.context, add_kernel());
  machine.launch(rig.stream, kernel, {},
                 KernelArguments::of(to_pointer(rig.allocation->slot_begin(slot)),
                                     rig.rig.page() / 8, std::uint64_t{1}));
  EXPECT_TRUE(machine.wait_stream(rig.stream, never));
  machine.unload_kernel(kernel);
}

// A hook of the last chunk runs while the copies of the others are complete or under way.
TEST_P(Batch, EachChunkIsSettled) {
  step(GetParam(), [](const SimOptions& options) {
    BatchRig rig(options);
    const std::uint64_t hook =
        rig.allocation->hooks().add({[&](const MoveEvent& event) {
                                       if (event.offset != (chunks - 1) * rig.rig.page()) return;
                                       sleep(rig.rig, std::chrono::seconds(1));
                                       for (std::size_t i = 0; i + 1 < chunks; ++i) add_one(rig, i);
                                     },
                                     {}});
    const MigrationReport report = rig.move(gpu(1), milliseconds(500));
    EXPECT_EQ(report.stall.count, 1u);
    EXPECT_EQ(report.bytes_copied_twice, (chunks - 1) * rig.rig.page());
    for (std::size_t slot = 0; slot < chunks; ++slot) {
      const std::uint64_t first = seed_word + slot * rig.rig.page() / 8;
      const std::uint64_t added = slot + 1 < chunks ? 1 : 0;
      EXPECT_EQ(rig.rig.wrong(rig.allocation->chunk(slot), first + added), 0u) << "slot " << slot;
    }
    rig.allocation->hooks().remove(hook);
  });
}

class SharedGate : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, SharedGate, testing::Range<std::uint64_t>(1, 5));

TEST_P(SharedGate, MovesTheChunksOfSeveralMigrations) {
  step(GetParam(), [](const SimOptions& options) {
    ManyRig rig(options);
    rig.submit_all(gpu(1));
    rig.wait();
    EXPECT_EQ(rig.gates(), 1u);
    for (const auto& task : rig.tasks) {
      EXPECT_EQ(task->report().stall.count, 1u);
      EXPECT_EQ(task->report().chunks_live, 1);
      EXPECT_GT(task->report().wall.count(), 0);
    }
    rig.expect_moved(gpu(1));
    EXPECT_EQ(rig.migrator.load().running, 0u);
    EXPECT_EQ(rig.migrator.load().waiting, 0u);
    EXPECT_EQ(rig.migrator.migrations(), chunks);
  });
}

TEST_P(SharedGate, MovesWhatIsCopiedUnderIt) {
  step(GetParam(), [](const SimOptions& options) {
    ManyRig rig(options);
    MigrateOptions stopped;
    stopped.mode = Mode::stopped;
    rig.submit_all(gpu(1), stopped);
    rig.wait();
    EXPECT_EQ(rig.gates(), 1u);
    rig.expect_moved(gpu(1));
  });
}

// Joined or not, a migration that is submitted during the move of another is carried out.
TEST_P(SharedGate, IsNotNeeded) {
  step(GetParam(), [](const SimOptions& options) {
    ManyRig rig(options);
    MigrateOptions alone;
    alone.max_stall = microseconds(1);
    rig.submit_all(gpu(1), alone);
    rig.wait();
    EXPECT_EQ(rig.gates(), chunks);
    rig.expect_moved(gpu(1));
  });
}

TEST_P(SharedGate, LeavesMigrationsToAnotherPlace) {
  step(GetParam(), [](const SimOptions& options) {
    ManyRig rig(options);
    rig.submit_all([](std::size_t i) { return i % 2 == 0 ? gpu(1) : host(0); });
    rig.wait();
    EXPECT_GE(rig.gates(), 2u);
    for (std::size_t i = 0; i < chunks; ++i) {
      EXPECT_EQ(rig.allocations[i]->place(0), i % 2 == 0 ? gpu(1) : host(0));
    }
  });
}

// A gate of both would stop a stream for memory that it does not use.
TEST_P(SharedGate, LeavesAllocationsThatOtherStreamsUse) {
  step(GetParam(), [](const SimOptions& options) {
    ManyRig rig(options);
    const BoundStream other = rig.rig.new_stream(0);
    rig.migrator.attached().attach(other, rig.allocations[5]->begin());
    rig.submit_all(gpu(1));
    rig.wait();
    EXPECT_EQ(rig.gates(), 2u);
    rig.expect_moved(gpu(1));
    rig.migrator.attached().detach(other, rig.allocations[5]->begin());
  });
}

TEST_P(SharedGate, LosesOneThatIsCancelled) {
  step(GetParam(), [](const SimOptions& options) {
    ManyRig rig(options);
    rig.driver.before_unmap = [&](int number) {
      if (number == 3) rig.tasks[5]->cancel();
    };
    rig.submit_all(gpu(1));
    rig.wait();
    EXPECT_EQ(rig.error(5), ErrorKind::cancelled);
    EXPECT_EQ(rig.gates(), 2u) << "the first one opened early";
    rig.expect_moved(gpu(1), 5);
  });
}

TEST_P(SharedGate, LosesOneThatIsFreed) {
  step(GetParam(), [](const SimOptions& options) {
    ManyRig rig(options);
    std::unique_ptr<Task> program;
    const Address freed = rig.allocations[5]->begin();
    rig.driver.before_unmap = [&](int number) {
      if (number != 3) return;
      program = rig.rig.machine().executor().spawn("program", [&] { rig.memory.free(freed); });
      poll_until(rig.driver.clock(), never, [&] { return rig.allocations[5]->being_freed.load(); });
    };
    rig.submit_all(gpu(1));
    rig.wait();
    program->join();
    EXPECT_EQ(rig.error(5), ErrorKind::cancelled);
    rig.allocations[5].reset();
    rig.expect_moved(gpu(1));
  });
}

TEST_P(SharedGate, LosesOneWhoseUnmapFails) {
  step(GetParam(), [](const SimOptions& options) {
    ManyRig rig(options);
    rig.driver.before_unmap = [&](int number) {
      if (number == 4) throw Error(ErrorKind::driver_failure, "cuMemUnmap", "told to fail");
    };
    rig.submit_all(gpu(1));
    rig.wait();
    std::size_t failed = 0;
    while (failed < chunks && !rig.error(failed)) ++failed;
    ASSERT_LT(failed, chunks);
    EXPECT_EQ(rig.error(failed), ErrorKind::driver_failure);
    EXPECT_EQ(rig.tasks[failed]->report().failures.size(), 1u);
    rig.expect_moved(gpu(1), failed);
  });
}

TEST_P(SharedGate, LosesOneWhoseHookRefuses) {
  step(GetParam(), [](const SimOptions& options) {
    ManyRig rig(options);
    rig.allocations[5]->hooks().add(
        {[](const MoveEvent&) { throw std::runtime_error("not this one"); }, {}});
    rig.submit_all(gpu(1));
    rig.wait();
    EXPECT_EQ(rig.error(5), ErrorKind::cancelled);
    rig.expect_moved(gpu(1), 5);
  });
}

TEST_P(SharedGate, LosesOneThatIsPinned) {
  step(GetParam(), [](const SimOptions& options) {
    ManyRig rig(options);
    rig.allocations[5]->pin();
    rig.submit_all(gpu(1));
    rig.wait();
    rig.allocations[5]->unpin();
    EXPECT_EQ(rig.error(5), ErrorKind::pinned);
    rig.expect_moved(gpu(1), 5);
  });
}

TEST_P(SharedGate, DoesNotWaitForOneThatIsPinned) {
  step(GetParam(), [](const SimOptions& options) {
    ManyRig rig(options);
    rig.allocations[0]->pin();
    MigrateOptions patient;
    patient.wait_for_pins = true;
    const TimePoint begin = rig.driver.clock().now();
    rig.submit_all(gpu(1), patient);
    for (std::size_t i = 1; i < chunks; ++i) rig.tasks[i]->wait();
    EXPECT_LT(rig.driver.clock().now() - begin, milliseconds(500));
    EXPECT_FALSE(rig.tasks[0]->done());
    rig.allocations[0]->unpin();
    rig.wait();
    rig.expect_moved(gpu(1));
  });
}

// A hook of a migration that shares gates would wait for the thread that it runs on.
TEST_P(SharedGate, LeavesOneWithAHookWhichMayFreeAnother) {
  step(GetParam(), [](const SimOptions& options) {
    ManyRig rig(options);
    const auto free_another = [&](const MoveEvent&) {
      rig.memory.free(rig.allocations[3]->begin());
    };
    rig.allocations[6]->hooks().add({free_another, {}});
    rig.submit_all(gpu(1));
    rig.wait();
    rig.allocations[3].reset();  // Moved before, or not.
    rig.expect_moved(gpu(1));
  });
}

// They were tried together, so they end together: not each after a deadline of its own.
TEST_P(SharedGate, ThatNeverClosesEndsAllItsMigrations) {
  step(GetParam(), [](const SimOptions& options) {
    ManyRig rig(options);
    rig.submit_all(gpu(1));  // The first load of a kernel's code waits for the context.
    rig.wait();
    rig.tasks.clear();
    rig.rig.stop(rig.stream);
    const TimePoint begin = rig.driver.clock().now();
    rig.submit_all(gpu(0));
    rig.wait();
    EXPECT_LT(rig.driver.clock().now() - begin, std::chrono::seconds(31));
    for (std::size_t i = 0; i < chunks; ++i) {
      EXPECT_EQ(rig.error(i), ErrorKind::busy) << i;
      EXPECT_EQ(rig.tasks[i]->report().failures.size(), 1u) << i;
      EXPECT_GT(rig.tasks[i]->report().retries, 0) << i;
      EXPECT_EQ(rig.allocations[i]->place(0), gpu(1));
    }
    rig.rig.let_all_go();
  });
}

}  // namespace
}  // namespace vma
