// Goal: what suspensions need, a context of the runtime's own on each GPU that the program uses, is
// created beside everything else: no move that a gate can serve waits for it, nor does any
// allocation; and a GPU without room for it is asked again later. Method: a driver in which
// creating such a context takes until the test says so.
#include "support/drivers/intercept_driver.hpp"
#include "unit/migrate/moves/move_rig.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <thread>

namespace vma {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t first_word = 7;

class SlowContexts final : public InterceptDriver {
 public:
  using InterceptDriver::InterceptDriver;
  ContextHandle create_own_context(DeviceId device) override {
    ++begun;
    shut.wait(true);
    if (full) throw Error(ErrorKind::out_of_memory, "cuCtxCreate", "told to fail");
    const ContextHandle context = InterceptDriver::create_own_context(device);
    ++made;
    return context;
  }
  SuspensionHandle suspend(std::span<const DeviceId> gpus) override {
    ++suspensions;
    return InterceptDriver::suspend(gpus);
  }
  void let_through() {
    shut = false;
    shut.notify_all();
  }

  std::atomic<int> begun{0}, made{0}, suspensions{0};
  std::atomic<bool> shut{true}, full{false};

 private:
  void around(Call, const std::function<void()>& body) override { body(); }
};

/// Of two GPUs, on both of which the program has a context.
class SuspensionPreparation : public testing::Test {
 protected:
  SuspensionPreparation() {
    MigratorLimits limits;
    limits.suspends = limits.prepares_suspensions = true;
    memory.emplace(driver, rig.topology(), MemoryLimits{});
    engine.emplace(driver, rig.topology(), memory->contexts(), memory->chunks().ledger(),
                   memory->chunks().slow_calls().turn());
    migrator.emplace(*memory, *engine, limits);
    allocation = memory->alloc(4 * rig.page(), gpu(0), {});
    rig.fill(*allocation, first_word);
  }
  ~SuspensionPreparation() override {
    driver.let_through();
    migrator->finish();
    memory->free(allocation->begin());
    allocation.reset();
    migrator.reset();
    engine.reset();
    EXPECT_EQ(memory->chunks().ledger().leaks(), 0u);
  }

  /// Between the looks, the machine's own time passes.
  template <typename Condition>
  bool comes_true(const Condition& condition) {
    SteadyClock clock;
    Clock& machine = driver.clock();
    for (const TimePoint end = clock.now() + seconds(60); clock.now() < end;) {
      if (condition()) return true;
      poll_until(machine, machine.now() + milliseconds(100), [] { return false; });
    }
    return false;
  }
  /// Blocks until the contexts are there.
  bool become_usable() {
    return comes_true([&] {
      return migrator->check_suspension(DeviceId{0}).state == SuspensionFinding::State::usable &&
             migrator->check_suspension(DeviceId{1}).state == SuspensionFinding::State::usable;
    });
  }
  MigrationReport moved_in_background(Place to) {
    const auto task = migrator->submit(allocation, {0, allocation->geometry().slots}, to, {});
    task->wait();
    if (task->error()) std::rethrow_exception(task->error());
    return task->report();
  }
  void expect_whole(Place at) {
    EXPECT_EQ(allocation->place(0), at);
    EXPECT_EQ(rig.wrong(*allocation, first_word), 0u);
  }

  MoveRig rig{"test-2"};
  SlowContexts driver{rig.driver()};
  std::optional<Memory> memory;
  std::optional<CopyEngine> engine;
  std::optional<Migrator> migrator;
  std::shared_ptr<Allocation> allocation;
};

TEST_F(SuspensionPreparation, CreatesContextsOfAllGpusSideBySide) {
  migrator->prepare_suspensions();
  EXPECT_TRUE(comes_true([&] { return driver.begun == 2; })) << "one waits for the other";
  migrator->prepare_suspensions();
  driver.let_through();
  EXPECT_TRUE(become_usable());
  migrator->prepare_suspensions();
  EXPECT_EQ(driver.begun, 2);
}

TEST_F(SuspensionPreparation, KeepsNoMoveWaitingThatAGateCanServe) {
  const BoundStream stream = rig.new_stream(0);
  migrator->attached().attach(stream, Address{});
  EXPECT_EQ(moved_in_background(gpu(1)).stop, StopKind::gate);
  expect_whole(gpu(1));
  EXPECT_TRUE(comes_true([&] { return driver.begun == 2; })) << "the move has begun it";
  EXPECT_EQ(moved_in_background(gpu(0)).stop, StopKind::gate);
  EXPECT_EQ(driver.suspensions, 0);
  EXPECT_EQ(migrator->stats().stall().count, 2u);
  driver.let_through();
  EXPECT_TRUE(become_usable());
  // What no gate would get through.
  auto* const word = static_cast<std::uint64_t*>(
      rig.machine().allocate_pinned(stream.context, sizeof(std::uint64_t)));
  const WordOperation wait{WordOperation::Kind::wait_until_at_least,
                           Address{reinterpret_cast<std::uintptr_t>(word)}, 1};
  rig.machine().batch(stream, {&wait, 1});
  EXPECT_EQ(moved_in_background(gpu(1)).stop, StopKind::suspension) << "as soon as it is there";
  std::atomic_ref(*word).store(1);
  EXPECT_TRUE(rig.machine().wait_stream(stream, TimePoint::max()));
  rig.machine().free_pinned(stream.context, word);
  EXPECT_EQ(migrator->stats().stall().count, 2u);
  EXPECT_EQ(migrator->stats(StopKind::suspension).stall().count, 1u);
  expect_whole(gpu(1));
  migrator->attached().detach(stream, Address{});
}

TEST_F(SuspensionPreparation, KeepsNoAllocationWaiting) {
  migrator->prepare_suspensions();
  ASSERT_TRUE(comes_true([&] { return driver.begun == 2; }));
  const auto other = memory->alloc(rig.page(), gpu(0), {});
  memory->free(other->begin());
}

TEST_F(SuspensionPreparation, IsWaitedForByAMoveThatNothingElseCanServe) {
  driver.let_through();
  EXPECT_EQ(moved_in_background(gpu(1)).stop, StopKind::suspension);
  expect_whole(gpu(1));
}

TEST_F(SuspensionPreparation, AsksAgainWhereThereWasNoRoom) {
  driver.full = true;
  driver.let_through();
  const BoundStream stream = rig.new_stream(0);
  migrator->attached().attach(stream, Address{});
  EXPECT_EQ(moved_in_background(gpu(1)).outcome, Outcome::done);
  ASSERT_TRUE(comes_true([&] { return driver.begun >= 2; }));
  EXPECT_EQ(driver.suspensions, 0);
  const SuspensionFinding found = migrator->check_suspension(DeviceId{0});
  EXPECT_EQ(found.state, SuspensionFinding::State::unknown);
  EXPECT_NE(found.why.find("has no room for a context"), std::string::npos) << found.why;
  driver.full = false;
  EXPECT_TRUE(comes_true([&] {
    migrator->prepare_suspensions();
    return driver.made == 2;
  }));
  EXPECT_TRUE(become_usable());
  migrator->attached().detach(stream, Address{});
}

TEST_F(SuspensionPreparation, HasEndedOnceItWasWaitedFor) {
  migrator->prepare_suspensions();
  ASSERT_TRUE(comes_true([&] { return driver.begun == 2; }));
  std::thread lets([&] { driver.let_through(); });
  migrator->await_preparation();
  EXPECT_EQ(driver.made, 2);
  EXPECT_GE(driver.suspensions, 2) << "each GPU has been tried, some perhaps again";
  lets.join();
  migrator->await_preparation();
}

TEST_F(SuspensionPreparation, EndsWithItsRuntime) {
  migrator->prepare_suspensions();
  ASSERT_TRUE(comes_true([&] { return driver.begun == 2; }));
  std::thread ends([&] { migrator->finish(); });
  driver.let_through();
  ends.join();
}

TEST(SuspensionPreparations, AreNotMadeUnlessThatIsAskedFor) {
  MoveRig rig("test-2", {}, {}, true);
  rig.migrator().prepare_suspensions();
  EXPECT_EQ(rig.calls(Call::create_own_context), 0);
}

}  // namespace
}  // namespace vma
