// Goal: calls end properly after shutdown, in a forked child, and while the process exits.

#include "base/clock.hpp"
#include "base/process_exit.hpp"
#include "support/drivers/fault_driver.hpp"
#include "machine/machine_file.hpp"
#include "migrate/stops/stop_words.hpp"
#include "migrate/stops/suspension.hpp"
#include "runtime/runtime_parts.hpp"
#include "support/sanitizer.hpp"
#include "support/test_kernels.hpp"
#include "support/thread_time.hpp"
#include "unit/runtime/runtime_rig.hpp"

#include <vma/vma.hpp>

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>

namespace vma {
namespace {

constexpr bool may_fork =
    !under_thread_sanitizer;  // Under TSan, a child of a program with threads cannot start any.

/// The exit status of a child process that runs `body`; 1000 plus the signal if one ended it. An
/// alarm ends a child that hangs.
int status_of_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    std::exit(body());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST(Process, CallsAfterShutdownAreDriverGone) {
  RuntimeRig rig;
  std::uint64_t* words = rig.alloc(8192, gpu(0));
  Runtime& runtime = rig.runtime();
  runtime.shutdown();
  runtime.shutdown();
  std::byte byte{};
  for (const auto& call :
       std::vector<std::function<void()>>{[&] { runtime.alloc(1); },
                                          [&] { runtime.alloc(1, gpu(0)); },
                                          [&] { runtime.free(words); },
                                          [&] { runtime.free_async(words, nullptr); },
                                          [&] { runtime.migrate(words, gpu(1)); },
                                          [&] { runtime.migrate(words, 0, 1, gpu(1)); },
                                          [&] { runtime.where(words); },
                                          [&] { runtime.size(words); },
                                          [&] { runtime.allocation(words); },
                                          [&] { runtime.allocations(); },
                                          [&] {
                                            runtime.read(words, {&byte, 1});
                                          },
                                          [&] {
                                            runtime.write(words, {&byte, 1});
                                          },
                                          [&] { static_cast<void>(runtime.host_view(words, 1)); },
                                          [&] { runtime.reserve(gpu(0), 1); },
                                          [&] { runtime.trim(gpu(0)); },
                                          [&] { runtime.make_stream(gpu(0)); },
                                          [&] { runtime.synchronize(nullptr); },
                                          [&] { runtime.places(); },
                                          [&] { runtime.stats(); },
                                          [&] { runtime.advise(words, 8, {}); }}) {
    EXPECT_EQ(kind_of_error(call), ErrorKind::driver_gone);
  }
  EXPECT_NE(runtime.description(), "");
}

TEST(Process, TheProcessWideRuntimeOpensOnceWithTheOptionsOfTheProgram) {
  if (!may_fork) GTEST_SKIP() << "needs a forked child";
  if (runtime_is_open()) GTEST_SKIP() << "an earlier test of this process opened it";
  const auto opens = [] {
    RuntimeOptions wrong;
    wrong.driver = "sim:no-such-machine";
    if (kind_of_error([&] { open_runtime(wrong); }) != ErrorKind::invalid_argument) return 1;
    if (runtime_is_open()) return 2;
    RuntimeOptions options;
    options.driver = "sim:test-4";
    if (&open_runtime(options) != &runtime() || !runtime_is_open()) return 3;
    if (runtime().description() != "simulated test-4") return 4;
    if (kind_of_error([&] { open_runtime(options); }) != ErrorKind::busy) return 5;
    return 0;
  };
  EXPECT_EQ(status_of_child(opens), 0);
}

TEST(Process, ARuntimeLeavesNothingBehind) {
  SimDriver machine(load_machine("test-2"));
  {
    RuntimeOptions options;
    options.driver = "sim:test-2";
    Runtime runtime = runtime_of(std::make_unique<RuntimeParts>(
        std::make_unique<FaultDriver>(static_cast<Driver&>(machine)), resolve_settings(options)));
    const Stream stream = runtime.make_stream(gpu(0));
    void* kept = runtime.alloc(100'000, gpu(0));
    runtime.migrate(kept, gpu(1));
    runtime.migrate(kept, host(0));
    runtime.free_async(runtime.alloc(8, gpu(1)), stream);
    runtime.reserve(host(0), 100'000);
  }
  EXPECT_TRUE(machine.leaks().empty()) << machine.leaks().front();
}

TEST(Process, AForkedChildIsRefusedAndFreesNothing) {
  if (!may_fork) GTEST_SKIP() << "no fork under TSan";
  auto rig = std::make_unique<RuntimeRig>();
  std::uint64_t* words = rig->alloc(40'960, gpu(0));
  rig->fill_by(0, words, 5'120, 3);
  rig->runtime().migrate(words, gpu(1));
  const auto in_child = [&]() -> int {
    std::byte byte{};
    Runtime& runtime = rig->runtime();
    const std::vector<std::function<void()>> calls{[&] { runtime.alloc(1); },
                                                   [&] { runtime.free(words); },
                                                   [&] { runtime.migrate(words, gpu(0)); },
                                                   [&] {
                                                     runtime.read(words, {&byte, 1});
                                                   },
                                                   [&] { runtime.where(words); }};
    for (const auto& call : calls) {
      try {
        call();
        return 1;
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::driver_gone) return 2;
      }
    }
    runtime.record_use(words, 8, gpu(0));
    runtime.shutdown();
    rig.reset();
    return 0;
  };
  EXPECT_EQ(status_of_child(in_child), 0);
  EXPECT_EQ(rig->wrong_for(0, words, 5'120, 3), 0u);
  rig->runtime().migrate(words, gpu(0));
  rig->runtime().free(words);
  rig->check_invariants();
}

TEST(Process, AChildThatExitsLetsNoHoldOfItsParentGo) {
  if (!may_fork) GTEST_SKIP() << "no fork under TSan";
  SimDriver machine(load_machine("test-2"));
  Ledger ledger;
  const ContextHandle context = machine.create_context(DeviceId{0});
  const BoundStream stream = machine.create_stream(context, StreamKind::non_blocking);
  {
    HoldPost post(machine, stream, ledger);
    const std::uint64_t epoch = next_epoch();
    post.close(epoch);
    EXPECT_EQ(status_of_child([] { return 0; }), 0);
    EXPECT_EQ(status_of_child([] {
                StopWord::open_all();
                return 0;
              }),
              0);
    EXPECT_FALSE(machine.query_event(post.event()));
    post.open(epoch);
    EXPECT_TRUE(machine.wait_event(post.event(), never));
  }
  EXPECT_EQ(ledger.leaks(), 0u);
}

TEST(Process, ExitWaitsForADarkSlotAndThenOpensForGood) {
  if (!may_fork) GTEST_SKIP() << "no fork under TSan";
  const auto dark_at_exit = []() -> int {
    SimDriver machine(load_machine("test-2"));
    Ledger ledger;
    const ContextHandle context = machine.create_context(DeviceId{0});
    HoldPost post(machine, machine.create_stream(context, StreamKind::non_blocking), ledger);
    PinnedWords words(machine, context, ledger);
    { const StopWord first(words); }  // Makes the memory for further words exist.
    const std::uint64_t epoch = next_epoch();
    post.close(epoch);
    post.set_dark(true);
    const StopWord later(words);  // After the dark one in the list, and not dark itself.
    std::atomic<bool> over = false, too_early = false;
    std::thread migrator([&] {
      // When the exit opens `later`, it has already skipped the dark one.
      Poll poll;
      while (!later.is_open(UINT64_MAX)) poll.pause();
      // An exit that does not wait is over soon; one that waits does so for at most a second.
      const double end = thread_seconds() + 0.005;
      while (!over && thread_seconds() < end) {
      }
      too_early = over || post.is_open(epoch);
      post.set_dark(false);
    });
    ProcessExit::begin();
    over = true;
    migrator.join();
    if (too_early) return 1;
    if (!post.is_open(UINT64_MAX)) return 2;  // Otherwise the next stop would close.
    return StopWord(words).is_open(UINT64_MAX) ? 0 : 3;
  };
  EXPECT_EQ(status_of_child([&] {
              std::_Exit(dark_at_exit());
              return 0;
            }),
            0);
}

/// A suspension that is dark when the process exits, beside a word that is not.
TEST(Process, ExitResumesWhatIsSuspendedAndLetsNoCopyGoWhileASlotIsDark) {
  if (!may_fork) GTEST_SKIP() << "no fork under TSan";
  const auto dark_at_exit = []() -> int {
    SimDriver machine(load_machine("test-2"));
    Ledger ledger;
    Watchdog watchdog(machine);
    const ContextHandle context = machine.create_context(DeviceId{0});
    PinnedWords words(machine, context, ledger);
    const StopWord word(words);
    Suspension suspension(machine, watchdog, {DeviceId{0}, DeviceId{1}}, std::chrono::seconds(60));
    const BoundStream stream = machine.create_stream(context, StreamKind::non_blocking);
    suspension.close(machine.clock().now() + std::chrono::seconds(60));
    suspension.begin_dark();
    std::uint64_t* const beat = words.take();  // Written once the work goes on.
    const WordOperation write{WordOperation::Kind::write, address_of(beat), 1};
    machine.batch(stream, {&write, 1});
    std::atomic<bool> over = false, copied_in_the_dark = false, copied = false;
    std::atomic<bool> dark = true;
    std::thread copies([&] {
      const CopyScope scope;  // Held back.
      copied_in_the_dark = dark.load();
      copied = true;
    });
    std::thread migrator([&] {
      while (!ProcessExit::begun()) std::this_thread::yield();
      const double end = thread_seconds() + 0.05;
      while (!over && thread_seconds() < end) {
      }
      dark = false;
      suspension.end_dark();
    });
    ProcessExit::begin();
    over = true;
    migrator.join();
    copies.join();
    if (copied_in_the_dark) return 1;
    SteadyClock wall;
    const auto written = [&] { return std::atomic_ref(*beat).load() == 1; };
    if (!poll_until(wall, wall.now() + std::chrono::seconds(10), written)) return 2;
    return copied ? 0 : 3;
  };
  EXPECT_EQ(status_of_child([&] {
              std::_Exit(dark_at_exit());
              return 0;
            }),
            0);
}

/// As a thread of the program forks while another thread moves memory.
TEST(Process, AForkedChildWaitsForNoSuspensionAndEndsNone) {
  if (!may_fork) GTEST_SKIP() << "no fork under TSan";
  SimDriver machine(load_machine("test-2"));
  Watchdog watchdog(machine);
  Ledger ledger;
  const ContextHandle context = machine.create_context(DeviceId{0});
  const BoundStream stream = machine.create_stream(context, StreamKind::non_blocking);
  PinnedWords words(machine, context, ledger);
  std::uint64_t* const beat = words.take();
  const WordOperation write{WordOperation::Kind::write, address_of(beat), 1};
  for (const bool dark : {false, true}) {
    Suspension suspension(machine, watchdog, {DeviceId{0}, DeviceId{1}}, std::chrono::seconds(60));
    suspension.close(machine.clock().now() + std::chrono::seconds(60));
    if (dark) suspension.begin_dark();
    machine.batch(stream, {&write, 1});
    EXPECT_EQ(status_of_child([] {
                { const CopyScope scope; }
                return 0;  // Its exit finds a suspension that is not its own.
              }),
              0);
    EXPECT_FALSE(machine.query_stream(stream));
    if (dark) suspension.end_dark();
    suspension.open();
    EXPECT_TRUE(machine.wait_stream(stream, machine.clock().now() + std::chrono::seconds(10)));
  }
  machine.destroy_stream(stream);
}

TEST(Process, ARuntimeThatGoesDuringTheExitStaysWholeForCallsInside) {
  if (!may_fork) GTEST_SKIP() << "no fork under TSan";
  RuntimeOptions options;
  options.driver = "sim:test-2";
  EXPECT_EQ(status_of_child([&]() -> int {
              auto runtime = std::make_unique<Runtime>(options);
              RuntimeParts& parts = parts_of(*runtime);
              auto inside = std::make_unique<RuntimeParts::Entry>(parts, "test");
              ProcessExit::begin();
              runtime.reset();
              const bool whole = parts.machinery && (*inside)->topology.places().size() == 3;
              inside.reset();  // Leaves the door.
              std::_Exit(whole ? 0 : 1);
            }),
            0);
}

TEST(Process, HooksThatGoDuringTheExitWaitForNobody) {
  if (!may_fork) GTEST_SKIP() << "no fork under TSan";
  RuntimeOptions options;
  options.driver = "sim:test-2";
  EXPECT_EQ(status_of_child([&]() -> int {
              Runtime runtime(options);
              void* const pointer = runtime.alloc(8192, gpu(0));
              std::optional<MoveHookRegistration> hook(
                  runtime.on_move(pointer, {[](const MoveEvent&) {}, {}}));
              // Held as by a thread that is stuck in a move.
              const MutexLock lock(
                  parts_of(runtime).machinery->memory.require(pointer, "test")->operations());
              ProcessExit::begin();
              hook.reset();
              std::_Exit(0);
            }),
            0);
}

std::atomic<bool> takes_long = false, inside_driver = false;
/// Like the driver's handler, it was registered before ours, and so runs later.
const bool registered_before = std::atexit([] {
                                 if (takes_long) std::_Exit(inside_driver ? 1 : 0);
                               }) == 0;

TEST(Process, ExitWaitsForADriverCallThatTakesLong) {
  if (!may_fork) GTEST_SKIP() << "no fork under TSan";
  ASSERT_TRUE(registered_before);
  EXPECT_EQ(status_of_child([]() -> int {
              static const ProcessExit::Action action(ProcessExit::Stage::write_files, [] {});
              takes_long = true;
              std::thread([] {
                const ProcessExit::DriverCall call;
                inside_driver = true;
                SteadyClock wall;
                poll_until(wall, never, [] { return ProcessExit::closed(); });
                // Longer than the driver takes for nearly all calls.
                poll_until(wall, wall.now() + std::chrono::milliseconds(1'500),
                           [] { return false; });
                inside_driver = false;
              }).detach();
              SteadyClock wall;
              poll_until(wall, never, [] { return inside_driver.load(); });
              return 7;
            }),
            0);
}

TEST(Process, ExitWithALiveRuntimeNeitherCrashesNorHangs) {
  if (!may_fork) GTEST_SKIP() << "no fork under TSan";
  setenv("VMART_DRIVER", "sim:test-2", 1);
  const auto live = []() -> int {
    void* pointer = vma::alloc(100'000, gpu(0));
    vma::migrate(pointer, gpu(1));
    const Stream stream = vma::make_stream(gpu(0));
    vma::launch(stream, fill_kernel(), {}, {},
                KernelArguments::of(pointer, std::uint64_t{1'000}, std::uint64_t{1}));
    return 7;
  };
  EXPECT_EQ(status_of_child(live), 7);
  EXPECT_EQ(status_of_child([&] {
              static Runtime second(RuntimeOptions{});
              second.migrate(second.alloc(100'000, gpu(0)), host(0));
              return live();
            }),
            7);
  unsetenv("VMART_DRIVER");
}

}  // namespace
}  // namespace vma
