// Goal: one gate moves as many chunks as its time allows; whatever ends a batch in between, each
// chunk is whole at its source or at its target, and the report says which. Method: moves on a
// stepped machine, disturbed between two chunks of a batch.
#include "support/drivers/intercept_driver.hpp"
#include "support/test_kernels.hpp"
#include "unit/migrate/moves/move_rig.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>

namespace vma {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::uint64_t chunks = 8;
constexpr std::uint64_t seed_word = 700;

/// Calls a function before each unmap that is made while streams are stopped.
class UnmapDriver : public InterceptDriver {
 public:
  explicit UnmapDriver(Driver& inner) : InterceptDriver(inner) {}
  void note_stopped(int change) noexcept override {
    stopped_ += change;
    InterceptDriver::note_stopped(change);
  }
  /// `number` counts from 1.
  std::function<void(int number)> before_unmap;

 private:
  void around(Call call, const std::function<void()>& body) override {
    if (call == Call::unmap && stopped_ > 0 && before_unmap) before_unmap(++unmaps_);
    body();
  }
  int stopped_ = 0;
  int unmaps_ = 0;
};

/// An allocation of `chunks` chunks at gpu(0), and a stream that may use it.
struct BatchRig {
  explicit BatchRig(const SimOptions& options, const MoverLimits& limits = {})
      : rig("test-2", {}, options),
        stream(rig.new_stream(0)),
        driver(rig.driver()),
        memory(driver, rig.topology(), {}),
        engine(driver, rig.topology(), memory.contexts(), memory.chunks().ledger(),
               memory.chunks().slow_calls().turn()),
        mover(memory, engine, limits) {
    mover.attached().attach(stream, Address{});
    AllocOptions chunked;
    chunked.chunk_bytes = rig.page();
    allocation = memory.alloc(chunks * rig.page(), gpu(0), chunked);
    rig.fill(*allocation, seed_word);
  }
  ~BatchRig() {
    mover.stop();
    mover.attached().detach(stream, Address{});
    memory.free(allocation->begin());
  }
  std::shared_ptr<MigrationTask> submit(Location to, std::chrono::microseconds max_stall) {
    MigrateOptions options;
    options.mode = Mode::automatic;
    options.max_stall = max_stall;
    return mover.submit(allocation, {0, chunks}, to, options);
  }
  MigrationReport move(Location to, std::chrono::microseconds max_stall) {
    const auto task = submit(to, max_stall);
    task->wait();
    if (task->error()) std::rethrow_exception(task->error());
    return task->report();
  }
  /// The first `moved` chunks lie at gpu(1), the others at gpu(0), and nothing is lost.
  void expect_moved(std::size_t moved) {
    for (std::size_t slot = 0; slot < chunks; ++slot) {
      EXPECT_EQ(allocation->home(slot), gpu(slot < moved ? 1 : 0)) << "slot " << slot;
    }
    EXPECT_EQ(rig.wrong(*allocation, seed_word), 0u);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(rig.wrong_for(i, *allocation, seed_word), 0u);
    memory.chunks().slow_calls().drain();
    memory.check_invariants();
  }

  MoveRig rig;
  const BoundStream stream;
  UnmapDriver driver;
  Memory memory;
  CopyEngine engine;
  Mover mover;
  std::shared_ptr<Allocation> allocation;
};

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

}  // namespace
}  // namespace vma
