// Goal: the check trusts a suspension only if work stands, goes on, and leaves the runtime's own
// context alone; it waits for none of the program's work, disturbs none of it, and leaves nothing
// suspended. Method: a driver whose suspensions claim to work and do not, each in another way;
// stepped machines, and programs whose work keeps the check from seeing anything.
#include "migrate/stops/suspension_check.hpp"
#include "support/drivers/intercept_driver.hpp"
#include "support/test_kernels.hpp"
#include "support/suspension_finding.hpp"
#include "unit/migrate/moves/move_rig.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Found = SuspensionFinding::State;

constexpr DeviceId first{0};

/// A driver whose suspensions do not do what they say.
class LyingDriver final : public InterceptDriver {
 public:
  using InterceptDriver::InterceptDriver;

  enum class Lie {
    none,
    kernels_run_on,       ///< Nothing is suspended.
    streams_run_on,       ///< The program is not: its channels are not known.
    own_stands,           ///< Own contexts stand, too.
    kernels_do_not_go_on  ///< A resume does nothing.
  };
  Lie lie = Lie::none;
  int resumes_that_do_nothing = 0;
  std::optional<Error> refusal;

  SuspensionHandle suspend(std::span<const DeviceId> gpus) override {
    ++suspensions_;
    if (refusal) throw Error(*refusal);
    if (lie == Lie::kernels_run_on || lie == Lie::streams_run_on) return SuspensionHandle{1};
    return lie == Lie::own_stands ? inner().suspend_everything(gpus) : inner().suspend(gpus);
  }
  SuspensionHandle suspend_everything(std::span<const DeviceId> gpus) override {
    ++suspensions_;
    if (refusal) throw Error(*refusal);
    if (lie == Lie::kernels_run_on) return SuspensionHandle{1};
    return inner().suspend_everything(gpus);
  }
  void resume(SuspensionHandle suspension) override {
    if (resumes_that_do_nothing > 0 && --resumes_that_do_nothing == 0) {
      left_ = suspension;
      return;
    }
    inner().resume(suspension);
  }
  /// Called before each batch of operations; they have been made once `batches` counts them.
  std::function<void()> before_batch;
  std::atomic<int> batches{0};
  void batch(BoundStream stream, std::span<const WordOperation> operations) override {
    if (before_batch) before_batch();
    InterceptDriver::batch(stream, operations);
    ++batches;
  }
  /// What `resume` did not do.
  void resume_left() { inner().resume(left_); }
  int suspensions() const { return suspensions_; }

 private:
  void around(Call, const std::function<void()>& body) override { body(); }

  int suspensions_ = 0;
  SuspensionHandle left_{};
};

struct CheckRig : MemoryRig {
  explicit CheckRig(const SimOptions& options = {})
      : MemoryRig("test-2", {}, options),
        lying(this->machine()),
        own(lying.create_own_context(first)),
        watchdog(lying),
        check(std::in_place, lying, watchdog, memory().chunks().ledger()) {}
  ~CheckRig() {
    check.reset();
    EXPECT_EQ(memory().chunks().ledger().leaks(), leaks);
    machine().destroy_context(own);
  }
  SuspensionFinding run() { return check->check(first, context(0), own); }
  /// A stream of the program goes through.
  void expect_program_runs() {
    const BoundStream stream = new_stream(0);
    launch_spin(stream, std::chrono::microseconds(10));
    EXPECT_TRUE(machine().wait_stream(stream, machine().clock().now() + seconds(5)));
  }

  LyingDriver lying;
  const ContextHandle own;
  Watchdog watchdog;
  std::optional<SuspensionCheck> check;
  std::uint64_t leaks = 0;
};

void step_check(const std::function<void(CheckRig&)>& body) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    step(seed, [&](const SimOptions& options) {
      CheckRig rig(options);
      body(rig);
    });
  }
}

void expect_off(CheckRig& rig, const std::string& why) {
  const SuspensionFinding found = rig.run();
  EXPECT_EQ(found.state, Found::off);
  EXPECT_NE(found.why.find(why), std::string::npos) << found.why;
  EXPECT_EQ(rig.check->finding(first).state, Found::off);
  const int suspensions = rig.lying.suspensions();
  EXPECT_EQ(rig.run().why, found.why);
  EXPECT_EQ(rig.lying.suspensions(), suspensions) << "tried again";
}

TEST(SuspensionCheck, SeesThatItWorksAndWhatItCosts) {
  step_check([](CheckRig& rig) {
    EXPECT_EQ(rig.check->finding(first).state, Found::unknown);
    const TimePoint begun = rig.machine().clock().now();
    const SuspensionFinding found = rig.run();
    EXPECT_EQ(found.state, Found::usable) << found.why;
    EXPECT_LT(rig.machine().clock().now() - begun, milliseconds(50));
    EXPECT_GT(found.suspend, TimePoint(0));
    EXPECT_LT(found.suspend, milliseconds(1));
    EXPECT_GT(found.resume, TimePoint(0));
    const int suspensions = rig.lying.suspensions();
    EXPECT_EQ(rig.run().suspend, found.suspend);
    EXPECT_EQ(rig.lying.suspensions(), suspensions) << "tried again";
    rig.expect_program_runs();
  });
}

TEST(SuspensionCheck, WorksOnThreadsToo) {
  MoveRig rig("test-2", {}, {}, true);
  const SuspensionFinding found = decided_finding(rig.migrator(), rig.machine().clock(), first);
  EXPECT_EQ(found.state, Found::usable) << found.why;
}

TEST(SuspensionCheck, SeesKernelsThatRunOn) {
  step_check([](CheckRig& rig) {
    rig.lying.lie = LyingDriver::Lie::kernels_run_on;
    expect_off(rig, "a kernel runs on while it is suspended");
    rig.expect_program_runs();
  });
}

TEST(SuspensionCheck, SeesThatTheProgramRunsOn) {
  step_check([](CheckRig& rig) {
    rig.lying.lie = LyingDriver::Lie::streams_run_on;
    expect_off(rig, "a stream of the program's context runs on while it is suspended");
    rig.expect_program_runs();
  });
}

TEST(SuspensionCheck, SeesThatOwnContextsStandToo) {
  step_check([](CheckRig& rig) {
    rig.lying.lie = LyingDriver::Lie::own_stands;
    expect_off(rig, "the runtime's own context stands, too");
    rig.expect_program_runs();
  });
}

TEST(SuspensionCheck, SeesAKernelThatDoesNotGoOn) {
  step_check([](CheckRig& rig) {
    rig.lying.resumes_that_do_nothing = 1;
    rig.leaks = 1;  // The kernel.
    expect_off(rig, "a suspended kernel does not go on");
    rig.lying.resume_left();
    rig.expect_program_runs();
  });
}

TEST(SuspensionCheck, SeesThatTheProgramDoesNotGoOn) {
  step_check([](CheckRig& rig) {
    rig.lying.resumes_that_do_nothing = 2;
    rig.leaks = 1;  // The words of the operation that stands.
    expect_off(rig, "a suspended stream of the program's context does not go on");
    rig.lying.resume_left();
    rig.expect_program_runs();
  });
}

TEST(SuspensionCheck, SaysWhyItIsRefused) {
  for (const char* const why :
       {"not permitted here",
        "no channels of this process are known, as under MPS, where a server "
        "has them",
        "the system refuses the call: Operation not permitted"}) {
    step_check([&](CheckRig& rig) {
      rig.lying.refusal.emplace(ErrorKind::unsupported, "NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS",
                                why);
      expect_off(rig, why);
      rig.expect_program_runs();
    });
  }
}

/// The program's work stands before the check's in all hardware queues.
TEST(SuspensionCheck, LeavesABusyProgramAloneAndTriesAgain) {
  step_check([](CheckRig& rig) {
    for (int stream = 0; stream < 12; ++stream) rig.launch_spin(rig.new_stream(0), seconds(1));
    const TimePoint begun = rig.machine().clock().now();
    const SuspensionFinding busy = rig.run();
    EXPECT_EQ(busy.state, Found::unknown);
    EXPECT_NE(busy.why.find("keeps work of ours from beginning"), std::string::npos) << busy.why;
    EXPECT_LT(rig.machine().clock().now() - begun, milliseconds(60)) << "waited for the program";
    const int suspensions = rig.lying.suspensions();
    EXPECT_EQ(rig.run().state, Found::unknown);
    EXPECT_EQ(rig.lying.suspensions(), suspensions) << "tried again at once";
    sleep(rig, seconds(3));
    EXPECT_EQ(rig.run().state, Found::usable) << rig.check->finding(first).why;
    rig.expect_program_runs();
  });
}

/// A try that decides nothing keeps other moves waiting.
TEST(SuspensionCheck, TriesLessAndLessOften) {
  step_check([](CheckRig& rig) {
    for (int stream = 0; stream < 12; ++stream) rig.launch_spin(rig.new_stream(0), seconds(120));
    Clock& clock = rig.machine().clock();
    const int before = rig.lying.suspensions();
    for (const TimePoint end = clock.now() + seconds(100); clock.now() < end;) {
      EXPECT_EQ(rig.run().state, Found::unknown);
      sleep(rig, milliseconds(100));
    }
    const int tries = rig.lying.suspensions() - before;  // Each suspends the counting kernel once.
    EXPECT_GE(tries, 12);
    EXPECT_LE(tries, 17) << "one each eight seconds";
    sleep(rig, seconds(30));
  });
}

/// It may be blocked there for ever.
TEST(SuspensionCheck, EndsBesideAThreadThatDoesNotReturn) {
  CheckRig rig;
  rig.leaks = 1;
  std::atomic<bool> inside{false}, may_return{false};
  rig.lying.before_batch = [&] {
    inside = true;
    while (!may_return) std::this_thread::yield();
  };
  EXPECT_EQ(rig.run().state, Found::unknown);
  EXPECT_TRUE(inside);
  rig.check.reset();
  EXPECT_EQ(rig.lying.batches, 0);
  may_return = true;
  EXPECT_TRUE(comes_true([&] { return rig.lying.batches == 1; }));
  rig.expect_program_runs();
}

/// Calls in its context wait for that thread.
TEST(SuspensionCheck, WaitsForNoThreadOfTheProgram) {
  step_check([](CheckRig& rig) {
    const Address plain = rig.machine().allocate_plain(rig.context(0), 4096);
    const BoundStream stream = rig.new_stream(0);
    rig.launch_spin(stream, seconds(1));
    const auto frees = rig.machine().executor().spawn(
        "program", [&] { rig.machine().free_plain(rig.context(0), plain); });
    sleep(rig, milliseconds(1));
    const TimePoint begun = rig.machine().clock().now();
    EXPECT_EQ(rig.run().state, Found::unknown);
    EXPECT_LT(rig.machine().clock().now() - begun, milliseconds(60)) << "waited for the program";
    frees->join();
    sleep(rig, seconds(1));
    EXPECT_EQ(rig.run().state, Found::usable) << rig.check->finding(first).why;
  });
}

TEST(SuspensionCheck, DisturbsNoKernelAndNoCaptureOfTheProgram) {
  step_check([](CheckRig& rig) {
    const BoundStream runs = rig.new_stream(0);
    rig.launch_spin(runs, milliseconds(200));
    const BoundStream captures = rig.machine().create_stream(rig.context(0), StreamKind::blocking);
    rig.machine().begin_capture(captures, CaptureMode::global);
    EXPECT_EQ(rig.run().state, Found::usable) << rig.check->finding(first).why;
    EXPECT_FALSE(rig.machine().query_stream(runs)) << "waited for the program";
    const GraphHandle graph = rig.machine().end_capture(captures);
    EXPECT_FALSE(is_none(graph));
    rig.machine().destroy_graph(graph);
    rig.machine().destroy_stream(captures);
    rig.machine().wait_stream(runs, never);
  });
}

/// Whatever call fails: nothing stays suspended or waits, and what is said is that it is off or not
/// seen, or that it works.
TEST(SuspensionCheck, AnyCallThatFailsLeavesTheProgramRunning) {
  for (int number = 0, fired = 1; fired > 0; ++number) {
    SCOPED_TRACE(number);
    step(1, [&](const SimOptions& options) {
      MoveRig rig("test-2", {}, options, true);
      const auto allocation = rig.filled(2, gpu(0), 2, 7);
      rig.fail({}, {number});
      try {
        rig.migrator().check_suspension(first);
      } catch (const Error&) {  // It asks which contexts there are.
      }
      fired = rig.driver().fired();
      rig.fail_nothing();
      EXPECT_EQ(rig.move(*allocation, gpu(1)).outcome, Outcome::done);
      EXPECT_EQ(rig.wrong(*allocation, 7), 0u);
    });
  }
}

TEST(SuspensionCheck, MovesHoldWhereItIsRefusedAndTryAgainLater) {
  step(1, [](const SimOptions& options) {
    MoveRig rig("test-2", {}, options, true);
    const auto allocation = rig.filled(2, gpu(0), 2, 7);
    rig.fail({Call::suspend_everything}, {0});
    rig.forget_calls();
    EXPECT_EQ(rig.move(*allocation, gpu(1)).outcome, Outcome::done);
    EXPECT_EQ(rig.migrator().check_suspension(first).state, Found::unknown);
    EXPECT_EQ(rig.move(*allocation, gpu(0)).outcome, Outcome::done);
    EXPECT_EQ(rig.calls(Call::suspend) + rig.calls(Call::suspend_everything), 0);
    EXPECT_GT(rig.calls(Call::hold_context), 0);
    sleep(rig, seconds(2));
    EXPECT_EQ(rig.move(*allocation, gpu(1)).outcome, Outcome::done);
    EXPECT_GT(rig.calls(Call::suspend), 0);
    EXPECT_EQ(rig.wrong(*allocation, 7), 0u);
  });
}

/// Each try would take as long as the creation of a context.
TEST(SuspensionCheck, AsksForRoomAgainOnlyLater) {
  step(1, [](const SimOptions& options) {
    MoveRig rig("test-2", {}, options, true);
    const auto allocation = rig.filled(2, gpu(0), 2, 7);
    std::set<int> all;
    for (int number = 0; number < 1000; ++number) all.insert(number);
    rig.fail({Call::create_own_context}, all);
    for (int round = 0; round < 4; ++round) rig.migrator().check_suspension(first);
    EXPECT_EQ(rig.driver().fired(), 1);
    EXPECT_NE(rig.migrator().check_suspension(first).why.find("no room"), std::string::npos);
    sleep(rig, seconds(2));
    rig.fail_nothing();
    EXPECT_EQ(rig.migrator().check_suspension(first).state, Found::usable);
  });
}

TEST(SuspensionCheck, SaysWhereNobodyAskedForIt) {
  MoveRig rig;
  const SuspensionFinding found = rig.migrator().check_suspension(first);
  EXPECT_EQ(found.state, Found::off);
  EXPECT_NE(found.why.find("VMART_STOP"), std::string::npos) << found.why;
  EXPECT_EQ(rig.calls(Call::suspend_everything), 0);
}

}  // namespace
}  // namespace vma
