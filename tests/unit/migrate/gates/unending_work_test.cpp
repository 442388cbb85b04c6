// Goal: a copy or settling that does not end stops work and blocks allocations for no longer than
// its bound; the source chunk stays intact, and memory that may still be written is kept aside.
// Method: a stepped machine on which the runtime's own work waits for a word.
#include "support/drivers/intercept_driver.hpp"
#include "unit/migrate/moves/move_rig.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Stops the stream of a chunk copy, or of the n-th launch, until a word is written.
class EndlessDriver final : public InterceptDriver {
 public:
  explicit EndlessDriver(MoveRig& rig)
      : InterceptDriver(static_cast<Driver&>(rig.driver())), rig_(rig) {}

  void copy(BoundStream stream, Address target, Address source, std::uint64_t bytes) override {
    if (copies_stand && bytes == chunk_bytes) word = rig_.stop(stream);
    InterceptDriver::copy(stream, target, source, bytes);
  }
  void launch(BoundStream stream, KernelHandle kernel, LaunchShape shape,
              const KernelArguments& arguments) override {
    if (launched++ == launch_stands) word = rig_.stop(stream);
    InterceptDriver::launch(stream, kernel, shape, arguments);
  }
  void launch_graph(BoundStream stream, ExecGraphHandle graph) override {
    if (launched++ == launch_stands) word = rig_.stop(stream);
    InterceptDriver::launch_graph(stream, graph);
  }

  bool copies_stand = false;
  std::uint64_t chunk_bytes = 0;
  int launch_stands = -1;
  int launched = 0;
  std::uint64_t* word = nullptr;

 private:
  void around(Call, const std::function<void()>& body) override { body(); }
  MoveRig& rig_;
};

struct UnendingRig {
  explicit UnendingRig(const SimOptions& options)
      : rig("test-2", {}, options),
        stream(rig.new_stream(0)),
        driver(rig),
        memory(std::in_place, driver, rig.topology(), MemoryLimits{}),
        engine(std::in_place, driver, rig.topology(), memory->contexts(), memory->chunks().ledger(),
               memory->chunks().slow_calls().turn()),
        migrator(std::in_place, *memory, *engine, MigratorLimits{}) {
    allocation = memory->alloc(4 * rig.page(), gpu(0), {});
    driver.chunk_bytes = 4 * rig.page();
    rig.fill(*allocation, seed);
    // The first load of a kernel's code waits for the context's work; later ones do not.
    rig.launch_spin(stream, TimePoint(1));
  }
  ~UnendingRig() {
    rig.let_all_go();
    if (allocation) memory->free(allocation->begin());
    allocation.reset();
    migrator.reset();
    engine.reset();
    memory.reset();
  }
  MigrationReport move_held(const MigrateOptions& options = {}) {
    allocation->begin_move();
    struct End {
      ~End() { allocation.end_move(); }
      Allocation& allocation;
    } end{*allocation};
    return migrator->move(*allocation, {0, 1}, gpu(1), options);
  }
  MigrationReport move_live(Place to = gpu(1), const MigrateOptions& options = {}) {
    const auto task = migrator->submit(allocation, {0, 1}, to, options);
    task->wait();
    if (task->error()) std::rethrow_exception(task->error());
    return task->report();
  }
  TimePoint now() { return driver.clock().now(); }

  static constexpr std::uint64_t seed = 40;
  MoveRig rig;
  const BoundStream stream;
  EndlessDriver driver;
  std::optional<Memory> memory;
  std::optional<CopyEngine> engine;
  std::optional<Migrator> migrator;
  std::shared_ptr<Allocation> allocation;
};

class UnendingWork : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, UnendingWork, testing::Range<std::uint64_t>(1, 3));

TEST_P(UnendingWork, OfAHeldCopyLetsHeldWorkGoOn) {
  for (const bool nothing_runs : {false, true}) {
    step(GetParam(), [&](const SimOptions& options) {
      UnendingRig rig(options);
      rig.driver.copies_stand = true;
      TimePoint went_on{0};
      const TimePoint begin = rig.now();
      const auto program = rig.rig.machine().executor().spawn("program", [&] {
        poll_until(rig.driver.clock(), begin + seconds(1), [] { return false; });
        rig.rig.launch_spin(rig.stream, TimePoint(1000));  // Behind the hold, if there is one.
        rig.rig.machine().wait_stream(rig.stream, never);
        went_on = rig.now();
      });
      MigrateOptions how;
      how.nothing_runs = nothing_runs;
      const Error error = expect_error(ErrorKind::busy, [&] { rig.move_held(how); });
      EXPECT_TRUE(says(error, "did not end within 2000 ms")) << error.what();
      // Copies ahead of a hold are waited for longer: they may be behind work of the program.
      EXPECT_LE(rig.now() - begin, seconds(nothing_runs ? 5 : 13));
      program->join();
      EXPECT_LE(went_on - begin, milliseconds(2500));
      EXPECT_EQ(rig.allocation->place(0), gpu(0));
      EXPECT_EQ(rig.rig.wrong(*rig.allocation, rig.seed), 0u);
      EXPECT_GT(rig.memory->chunks().ledger().leak_count()->load(), 0u)
          << "the target is kept aside";
      // Work that ends after all disturbs nobody.
      rig.driver.copies_stand = false;
      MoveRig::let_go(rig.driver.word);
      EXPECT_EQ(rig.rig.calls(Call::create_own_context), 0);
      EXPECT_EQ(rig.move_held(how).outcome, Outcome::done);
      EXPECT_EQ(rig.rig.calls(Call::create_own_context), nothing_runs ? 0 : 1)
          << "copies ahead of a hold are no longer trusted";
      EXPECT_EQ(rig.rig.wrong(*rig.allocation, rig.seed), 0u);
    });
  }
}

TEST_P(UnendingWork, OfManyHeldCopiesHoldsTheWorkNoLongerThanOfOne) {
  step(GetParam(), [](const SimOptions& options) {
    UnendingRig rig(options);
    const auto other = rig.memory->alloc(4 * rig.rig.page(), gpu(0), {});
    const auto third = rig.memory->alloc(2 * rig.rig.page(), gpu(1), {});  // Its copy ends.
    rig.driver.copies_stand = true;
    const auto account = std::make_shared<GroupAccount>(rig.driver.clock(),
                                                        std::vector<MigrationProgress>(3), nullptr);
    const std::vector<RangeResult> results = rig.migrator->move_all(
        std::vector{whole(rig.allocation, gpu(1)), whole(other, gpu(1)), whole(third, host(0))}, {},
        {}, *account);
    EXPECT_LE(account->total({}).stall.max, milliseconds(2500));
    for (std::size_t i = 0; i < 2; ++i) {
      ASSERT_TRUE(results[i].error);
      EXPECT_EQ(results[i].error->kind(), ErrorKind::busy);
    }
    EXPECT_EQ(results[2].report.outcome, Outcome::done) << "copied by then";
    rig.rig.let_all_go();
    rig.memory->free(other->begin());
    rig.memory->free(third->begin());
  });
}

TEST_P(UnendingWork, OfAHeldCopyThatEndsLateLeavesNothingBehind) {
  step(GetParam(), [](const SimOptions& options) {
    UnendingRig rig(options);
    rig.driver.copies_stand = true;
    const auto ends = rig.rig.machine().executor().spawn("end", [&] {
      poll_until(rig.driver.clock(), rig.now() + seconds(3), [] { return false; });
      MoveRig::let_go(rig.driver.word);
    });
    expect_error(ErrorKind::busy, [&] { rig.move_held(); });
    ends->join();
    EXPECT_EQ(rig.memory->chunks().ledger().leak_count()->load(), 0u);
    EXPECT_EQ(rig.rig.wrong(*rig.allocation, rig.seed), 0u);
  });
}

/// The first launch copies, the second one settles.
TEST_P(UnendingWork, OfSettlingKeepsNoAllocationWaiting) {
  for (const seconds lasts : {seconds(1), seconds(60)}) {
    step(GetParam(), [&](const SimOptions& options) {
      UnendingRig rig(options);
      rig.migrator->attached().attach(rig.stream, Address{});
      rig.driver.launch_stands = 1;
      bool over = false;
      TimePoint longest{0};
      std::vector<Address> others;
      const TimePoint begin = rig.now();
      const auto ends = rig.rig.machine().executor().spawn("end", [&] {
        poll_until(rig.driver.clock(), begin + lasts, [&] { return over; });
        if (rig.driver.word != nullptr) MoveRig::let_go(rig.driver.word);
      });
      const auto other = rig.rig.machine().executor().spawn("other", [&] {
        for (int round = 0; round < 100 && !over; ++round) {
          const TimePoint asked = rig.now();
          const auto made = rig.memory->alloc(rig.rig.page(), gpu(1), {});
          longest = std::max(longest, rig.now() - asked);
          others.push_back(made->begin());  // Freed later: a free waits for all work.
          poll_until(rig.driver.clock(), rig.now() + milliseconds(50), [&] { return over; });
        }
      });
      std::optional<Error> error;
      try {
        EXPECT_EQ(rig.move_live().outcome, Outcome::done);
      } catch (const Error& failed) {
        error = failed;
      }
      const TimePoint took = rig.now() - begin;
      over = true;
      ends->join();
      other->join();
      EXPECT_LE(longest, milliseconds(500)) << "an allocation waited for settling";
      EXPECT_EQ(error.has_value(), lasts > seconds(10));
      EXPECT_LE(took, seconds(15));
      if (error) {
        EXPECT_EQ(error->kind(), ErrorKind::driver_failure) << error->what();
        EXPECT_EQ(rig.allocation->place(0), gpu(0));
        EXPECT_GT(rig.memory->chunks().ledger().leak_count()->load(), 0u)
            << "the target is kept aside";
      }
      EXPECT_EQ(rig.rig.wrong(*rig.allocation, rig.seed), 0u);
      rig.migrator->attached().detach(rig.stream, Address{});
      rig.rig.let_all_go();
      for (const Address begin : others) rig.memory->free(begin);
    });
  }
}

TEST_P(UnendingWork, OfAGivenUpCopyLetsTheNextMoveGoStopped) {
  step(GetParam(), [](const SimOptions& options) {
    UnendingRig rig(options);
    rig.migrator->attached().attach(rig.stream, Address{});
    rig.driver.launch_stands = 0;
    const auto given_up = rig.migrator->submit(rig.allocation, {0, 1}, gpu(1), {});
    poll_until(rig.driver.clock(), rig.now() + milliseconds(100), [] { return false; });
    ASSERT_NE(rig.driver.word, nullptr) << "the copy is under way";
    given_up->cancel();
    given_up->wait();
    MigrateOptions live;
    live.mode = Mode::live;
    const Error error = expect_error(ErrorKind::busy, [&] { rig.move_live(gpu(1), live); });
    EXPECT_TRUE(says(error, "move with Mode::stopped")) << error.what();
    const MigrationReport stopped = rig.move_live();
    EXPECT_EQ(stopped.outcome, Outcome::done);
    EXPECT_EQ(stopped.chunks_live, 0);
    ASSERT_EQ(stopped.reasons.size(), 1u);
    EXPECT_NE(stopped.reasons.begin()->first.find("an abandoned live copy from gpu(0)"),
              std::string::npos)
        << stopped.reasons.begin()->first;
    // Once it has ended, moves are live again.
    MoveRig::let_go(rig.driver.word);
    EXPECT_EQ(rig.move_live(gpu(0)).outcome, Outcome::done);
    EXPECT_EQ(rig.move_live(gpu(1), live).chunks_live, 1);
    EXPECT_EQ(rig.rig.wrong(*rig.allocation, rig.seed), 0u);
    rig.migrator->attached().detach(rig.stream, Address{});
  });
}

}  // namespace
}  // namespace vma
