// Goal: a move that suspends the program waits for none of its work, needs to know of none of its
// streams, disturbs no capture, loses no write, and always lets the program go on. Method: kernels
// that end only when the test says so, on streams that nothing was told of; refused, failing and
// slow calls on stepped machines.
#include "support/counting_kernel.hpp"
#include "support/test_kernels.hpp"
#include "support/suspension_finding.hpp"
#include "unit/migrate/moves/move_rig.hpp"

#include <vma/error.hpp>
#include <vma/migration.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;

struct SuspendingRig : MoveRig {
  explicit SuspendingRig(const SimOptions& options = {}) : MoveRig("test-2", {}, options, true) {
    for (const DeviceId device : topology().devices()) {
      const SuspensionFinding found = decided_finding(migrator(), machine().clock(), device);
      EXPECT_EQ(found.state, SuspensionFinding::State::usable) << found.why;
    }
    forget_calls();
  }
};

/// Counts in every word of the memory, on a stream that is not attached.
class Counter : public CountingKernel {
 public:
  Counter(MoveRig& rig, const Allocation& allocation)
      : CountingKernel(rig.machine(), rig.context(0),
                       {static_cast<std::uint64_t*>(to_pointer(allocation.begin())),
                        allocation.size_bytes() / sizeof(std::uint64_t)}) {}
};

std::shared_ptr<Allocation> zeros(MoveRig& rig) {
  const auto allocation = rig.alloc(4, gpu(0), 2);
  rig.engine().zero(gpu(0), allocation->begin(), allocation->size_bytes());
  return allocation;
}

std::uint64_t words_that_differ(MoveRig& rig, const Allocation& allocation, std::uint64_t value) {
  std::uint64_t differ = 0;
  for (std::size_t slot = 0; slot < allocation.geometry().slots; ++slot) {
    std::vector<std::uint64_t> words(allocation.chunk(slot).size_bytes() / 8);
    rig.engine().read(allocation.chunk(slot), allocation.bytes_at(slot),
                      std::as_writable_bytes(std::span(words)));
    for (const std::uint64_t word : words) differ += word != value;
  }
  return differ;
}

/// Moves that the caller waits for, and moves in the background.
class EitherWay : public testing::TestWithParam<bool> {
 protected:
  static MigrationReport move(MoveRig& rig, const std::shared_ptr<Allocation>& allocation,
                              Place to) {
    if (!GetParam()) return rig.move(*allocation, to);
    const auto task = rig.migrator().submit(allocation, {0, allocation->geometry().slots}, to, {});
    task->wait();
    if (const std::exception_ptr failure = task->error()) std::rethrow_exception(failure);
    return task->report();
  }
};
INSTANTIATE_TEST_SUITE_P(SuspendedMoves, EitherWay, testing::Bool(), [](const auto& way) {
  return way.param ? "in_the_background" : "waiting";
});

TEST_P(EitherWay, MoveMemoryUnderAKernelThatNeverEnds) {
  SuspendingRig rig;
  const auto allocation = zeros(rig);
  Counter counter(rig, *allocation);
  rig.forget_calls();
  for (const Place to : {gpu(1), host(0), gpu(0), host(0), gpu(1), gpu(0)}) {
    ASSERT_TRUE(counter.goes_on());
    const MigrationReport report = move(rig, allocation, to);
    EXPECT_EQ(report.outcome, Outcome::done);
    EXPECT_GE(report.stall.count, 1u);
    EXPECT_GT(report.stall.max, TimePoint(0));
    rig.expect_shown(*allocation);
  }
  EXPECT_GE(rig.calls(Call::suspend), 6);
  EXPECT_EQ(rig.calls(Call::hold_context) + rig.calls(Call::record_context), 0);
  EXPECT_EQ(words_that_differ(rig, *allocation, counter.end()), 0u);
}

/// Work that has begun may write at any time afterwards, to wherever the memory is then.
TEST(SuspendedMoves, KeepNoCopyOfWhatAKernelStillWrites) {
  SuspendingRig rig;
  const auto allocation = zeros(rig);
  MigrateOptions options;
  options.keep_clean_copy = true;
  rig.move(*allocation, host(0));
  Counter counter(rig, *allocation);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(rig.move(*allocation, gpu(0), options).copies_kept, 0);
    ASSERT_TRUE(counter.goes_on());
    rig.move(*allocation, host(0), options);
    ASSERT_TRUE(counter.goes_on());
  }
  EXPECT_EQ(words_that_differ(rig, *allocation, counter.end()), 0u);
  allocation->set_read_only(true, rig.topology());
  EXPECT_EQ(rig.move(*allocation, gpu(0), options).copies_kept, 2);
  allocation->set_read_only(false, rig.topology());
  rig.memory().chunks().drop_copies(*allocation);
}

TEST(SuspendedMoves, DisturbNoCapture) {
  SuspendingRig rig;
  const auto allocation = rig.filled(2, gpu(0), 2, 7);
  for (const StreamKind kind : {StreamKind::blocking, StreamKind::non_blocking}) {
    const BoundStream stream = rig.machine().create_stream(rig.context(0), kind);
    rig.machine().begin_capture(stream, CaptureMode::global);
    rig.move(*allocation, allocation->place(0) == gpu(0) ? gpu(1) : gpu(0));
    const GraphHandle graph = rig.machine().end_capture(stream);
    EXPECT_FALSE(is_none(graph));
    rig.machine().destroy_graph(graph);
    rig.machine().destroy_stream(stream);
  }
}

/// Work that has begun may still use the memory, and may not reach it there.
TEST(SuspendedMoves, WaitForWorkThatWouldLoseItsMemory) {
  MoveRig rig("test-islands", {}, {}, true);
  for (const DeviceId device : rig.topology().devices()) {
    decided_finding(rig.migrator(), rig.machine().clock(), device);
  }
  const auto moved = rig.filled(2, gpu(0), 2, 7), dropped = rig.filled(2, gpu(0), 2, 7);
  rig.forget_calls();
  rig.move(*moved, gpu(2));
  EXPECT_EQ(rig.calls(Call::suspend), 0);
  EXPECT_GT(rig.calls(Call::hold_context), 0);
  rig.move(*moved, gpu(3));
  EXPECT_EQ(rig.calls(Call::suspend), 1);
  dropped->begin_move();
  rig.migrator().drop(*dropped, {0, 1}, {});
  dropped->end_move();
  EXPECT_EQ(rig.calls(Call::suspend), 1);
  EXPECT_EQ(rig.wrong(*moved, 7), 0u);
}

/// Calls of a kind, from the next one on.
std::set<int> first_calls(int count) {
  std::set<int> numbers;
  for (int number = 0; number < count; ++number) numbers.insert(number);
  return numbers;
}
constexpr int all_calls = 100'000;

TEST_P(EitherWay, ARefusedOneIsTriedAgain) {
  SuspendingRig rig;
  const auto allocation = zeros(rig);
  Counter counter(rig, *allocation);
  rig.fail({Call::suspend}, {0});
  EXPECT_EQ(move(rig, allocation, gpu(1)).outcome, Outcome::done);
  rig.fail_nothing();
  EXPECT_TRUE(counter.goes_on());
  EXPECT_EQ(words_that_differ(rig, *allocation, counter.end()), 0u);
}

/// The same move stops the work otherwise, and so do those after it for a while.
TEST_P(EitherWay, OneThatIsRefusedAgainIsReplaced) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    step(seed, [](const SimOptions& options) {
      SuspendingRig rig(options);
      const auto allocation = rig.filled(4, gpu(0), 2, 7);
      const BoundStream stream = rig.new_stream(0);
      rig.migrator().attached().attach(stream, Address{});
      rig.launch_spin(stream, milliseconds(1));
      rig.fail({Call::suspend}, first_calls(all_calls));
      const MigrationReport report = move(rig, allocation, gpu(1));
      EXPECT_EQ(report.outcome, Outcome::done);
      EXPECT_GE(report.stall.count, 1u);
      EXPECT_EQ(rig.calls(Call::suspend), 0) << "the trace has no failed calls";
      // In the background, the move may have taken so long that the next one asks again.
      EXPECT_EQ(move(rig, allocation, gpu(0)).outcome, Outcome::done);
      sleep(rig, milliseconds(100));
      const int refused = rig.driver().fired();
      EXPECT_EQ(move(rig, allocation, host(0)).outcome, Outcome::done);
      EXPECT_EQ(rig.driver().fired(), refused) << "asked again at once";
      rig.fail_nothing();
      sleep(rig, std::chrono::seconds(2));
      // In the background, gates serve until the check has ended.
      constexpr int moves_max = 50;
      for (int number = 0; number < moves_max && rig.calls(Call::suspend) == 0; ++number) {
        rig.launch_spin(stream, milliseconds(20));  // For longer than a gate waits then.
        EXPECT_EQ(move(rig, allocation, gpu(number % 2)).outcome, Outcome::done);
        sleep(rig, milliseconds(100));
      }
      EXPECT_GT(rig.calls(Call::suspend), 0) << "never asked again";
      EXPECT_EQ(rig.wrong(*allocation, 7), 0u);
      rig.migrator().attached().detach(stream, Address{});
    });
  }
}

/// No gate can stop work that nobody knows of.
TEST(SuspendedMoves, InTheBackgroundHoldWhereTheyAreRefused) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    step(seed, [](const SimOptions& options) {
      SuspendingRig rig(options);
      const auto allocation = rig.filled(4, gpu(0), 2, 7);
      rig.fail({Call::suspend}, {0, 1});
      const auto task =
          rig.migrator().submit(allocation, {0, allocation->geometry().slots}, gpu(1), {});
      task->wait();
      EXPECT_EQ(task->error(), nullptr);
      EXPECT_EQ(task->report().reasons.at("suspension_refused"), 1);
      EXPECT_EQ(task->report().stall.count, 2u)
          << "a hold, and a suspension; a refusal stops nothing";
      EXPECT_EQ(rig.driver().fired(), 2);
      rig.fail_nothing();
      EXPECT_EQ(rig.wrong(*allocation, 7), 0u);
    });
  }
}

TEST_P(EitherWay, AResumeThatFailsIsTriedAgain) {
  SuspendingRig rig;
  const auto allocation = zeros(rig);
  Counter counter(rig, *allocation);
  rig.fail({Call::resume}, first_calls(200));
  EXPECT_EQ(move(rig, allocation, gpu(1)).outcome, Outcome::done);
  rig.fail_nothing();
  EXPECT_TRUE(counter.goes_on());
  EXPECT_EQ(words_that_differ(rig, *allocation, counter.end()), 0u);
}

/// The move ends, and the work goes on as soon as it can.
TEST_P(EitherWay, AResumeThatCannotBeHadIsTriedForAsLongAsItTakes) {
  step(1, [](const SimOptions& options) {
    SuspendingRig rig(options);
    const auto allocation = rig.filled(4, gpu(0), 4, 7);
    const BoundStream stream = rig.new_stream(0);
    rig.launch_spin(stream, milliseconds(1));
    rig.fail({Call::resume}, first_calls(all_calls));
    const TimePoint begun = rig.machine().clock().now();
    EXPECT_EQ(move(rig, allocation, gpu(1)).outcome, Outcome::done);
    EXPECT_LT(rig.machine().clock().now() - begun, std::chrono::seconds(12));
    { const CopyScope scope; }  // Copies of the program need not wait for the driver.
    EXPECT_FALSE(
        rig.machine().wait_stream(stream, rig.machine().clock().now() + std::chrono::seconds(20)));
    rig.fail_nothing();
    EXPECT_TRUE(
        rig.machine().wait_stream(stream, rig.machine().clock().now() + std::chrono::seconds(2)));
    EXPECT_EQ(move(rig, allocation, gpu(0)).outcome, Outcome::done);
    EXPECT_EQ(rig.wrong(*allocation, 7), 0u);
  });
}

TEST_P(EitherWay, AnyCallThatFailsLetsTheProgramGoOn) {
  for (const Call call : {Call::create, Call::map, Call::unmap, Call::grant, Call::copy,
                          Call::launch, Call::record}) {
    for (int number = 0, fired = 1; fired > 0; ++number) {
      SuspendingRig rig;
      const auto allocation = zeros(rig);
      Counter counter(rig, *allocation);
      rig.fail({call}, {number});
      try {
        move(rig, allocation, gpu(1));
      } catch (const Error&) {  // Whatever it was; the chunks are where the report says.
      }
      fired = rig.driver().fired();
      rig.fail_nothing();
      EXPECT_TRUE(counter.goes_on()) << to_string(call) << " " << number;
      rig.expect_shown(*allocation);
      EXPECT_EQ(words_that_differ(rig, *allocation, counter.end()), 0u)
          << to_string(call) << " " << number;
    }
  }
}

TEST(SuspendedMoves, HoldWhereThereIsNoRoomForAContextOfTheirOwn) {
  MoveRig rig("test-2", {}, {}, true);
  const auto allocation = rig.filled(2, gpu(0), 2, 7);
  rig.fail({Call::create_own_context}, {0, 1, 2, 3});
  rig.forget_calls();
  EXPECT_EQ(rig.move(*allocation, gpu(1)).outcome, Outcome::done);
  EXPECT_EQ(rig.calls(Call::suspend), 0);
  EXPECT_GT(rig.calls(Call::hold_context), 0);
  rig.fail_nothing();
  EXPECT_EQ(rig.wrong(*allocation, 7), 0u);
}

TEST(SuspendedMoves, WaitForCopiesOfTheProgramBeforeTheyStopAnything) {
  SuspendingRig rig;
  const auto allocation = zeros(rig);
  MigrateOptions options;
  options.deadline = milliseconds(200);
  {
    const CopyScope scope;
    const Error error =
        expect_error(ErrorKind::busy, [&] { rig.move(*allocation, gpu(1), options); });
    EXPECT_TRUE(says(error, "CopyScope")) << error.what();
    EXPECT_EQ(rig.calls(Call::suspend), 0);
  }
  EXPECT_EQ(rig.move(*allocation, gpu(1)).outcome, Outcome::done);
}

/// The thread that moves is blocked in a call for longer than one may take.
TEST(SuspendedMoves, TheWatchdogLetsTheProgramGoOn) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    step(seed, [](const SimOptions& options) {
      SuspendingRig rig(options);
      const auto allocation = rig.filled(2, gpu(0), 2, 7);
      rig.move(*allocation, gpu(1));
      rig.move(*allocation, gpu(0));
      const BoundStream stream = rig.new_stream(0);
      rig.launch_spin(stream, milliseconds(1));
      rig.delay(Call::launch, std::chrono::seconds(20));  // The copy of a chunk, by a kernel.
      rig.delay(Call::copy, std::chrono::seconds(20));
      const TimePoint begun = rig.machine().clock().now();
      TimePoint ended{0};
      const auto waiter = options.stepped->spawn("program", [&] {
        rig.machine().wait_stream(stream, never);
        ended = rig.machine().clock().now();
      });
      expect_error(ErrorKind::busy, [&] { rig.move(*allocation, gpu(1)); });
      waiter->join();
      EXPECT_LT(ended - begun, std::chrono::seconds(5)) << "long before the call returned";
      rig.delay(Call::launch, TimePoint(0));
      rig.delay(Call::copy, TimePoint(0));
      EXPECT_EQ(allocation->place(0), gpu(0));
      EXPECT_EQ(rig.move(*allocation, gpu(1)).outcome, Outcome::done);
      EXPECT_EQ(rig.wrong(*allocation, 7), 0u);
    });
  }
}

/// Calls of the program that wait for its work, each entered a moment before a move suspends that.
TEST_P(EitherWay, LetBlockedThreadsOfTheProgramGoOn) {
  using Body = std::function<void(MoveRig&, BoundStream, ContextHandle)>;
  const std::map<std::string, Body> calls{
      {"wait_stream", [](MoveRig& rig, BoundStream stream,
                         ContextHandle) { rig.machine().wait_stream(stream, never); }},
      {"wait_event",
       [](MoveRig& rig, BoundStream stream, ContextHandle context) {
         const EventHandle event = rig.machine().create_event(context);
         rig.machine().record(event, stream);
         rig.machine().wait_event(event, never);
         rig.machine().destroy_event(event);
       }},
      {"synchronize_context",
       [](MoveRig& rig, BoundStream, ContextHandle context) {
         rig.machine().synchronize_context(context);
       }},
      {"free_plain",
       [](MoveRig& rig, BoundStream, ContextHandle context) {
         rig.machine().free_plain(context, rig.machine().allocate_plain(context, 4096));
       }},
      {"free_pinned",
       [](MoveRig& rig, BoundStream, ContextHandle context) {
         rig.machine().free_pinned(context, rig.machine().allocate_pinned(context, 4096));
       }},
      {"load_kernel",
       [](MoveRig& rig, BoundStream stream, ContextHandle context) {
         const KernelHandle kernel = rig.machine().load_kernel(context, fill_kernel());
         rig.machine().wait_stream(stream, never);
         rig.machine().unload_kernel(kernel);
       }},
      {"create_context",
       [](MoveRig& rig, BoundStream, ContextHandle) {
         rig.machine().destroy_context(rig.machine().create_context(DeviceId{0}));
       }},
      {"destroy_context", [](MoveRig& rig, BoundStream stream, ContextHandle) {
         rig.machine().destroy_stream(stream);
       }}};
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
      step(seed, [&, &body = call, &which = name](const SimOptions& options) {
        SuspendingRig rig(options);
        const auto allocation = rig.filled(4, gpu(0), 2, 7);
        const ContextHandle context = rig.machine().create_context(DeviceId{0});
        const BoundStream stream = rig.machine().create_stream(context, StreamKind::non_blocking);
        rig.launch_spin(stream, milliseconds(20));
        bool returned = false;
        const auto thread = options.stepped->spawn("program", [&] {
          body(rig, stream, context);
          if (which != "destroy_context") rig.machine().destroy_stream(stream);
          rig.machine().destroy_context(context);
          returned = true;
        });
        for (const Place to : {gpu(1), host(0), gpu(0), gpu(1)}) {
          sleep(rig, milliseconds(1));
          EXPECT_EQ(move(rig, allocation, to).outcome, Outcome::done);
        }
        thread->join();
        EXPECT_TRUE(returned);
        rig.expect_shown(*allocation);
        EXPECT_EQ(rig.wrong(*allocation, 7), 0u);
      });
    }
  }
}

/// Channels come and go meanwhile, in contexts that no move has seen.
TEST_P(EitherWay, GoThroughBesideContextsThatComeAndGo) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    step(seed, [](const SimOptions& options) {
      SuspendingRig rig(options);
      const auto allocation = rig.filled(4, gpu(0), 2, 7);
      bool over = false;
      int contexts = 0;
      std::vector<std::unique_ptr<Task>> threads;
      for (int gpu = 0; gpu < 2; ++gpu) {
        threads.push_back(options.stepped->spawn("contexts", [&, gpu] {
          while (!over) {
            const ContextHandle context = rig.machine().create_context(DeviceId{gpu});
            const BoundStream stream =
                rig.machine().create_stream(context, StreamKind::non_blocking);
            rig.launch_spin(stream, std::chrono::microseconds(300));
            rig.machine().destroy_stream(stream);
            rig.machine().destroy_context(context);
            ++contexts;
          }
        }));
      }
      for (int round = 0; contexts < 8 || round % 2 == 1; ++round) {
        const MigrationReport report = move(rig, allocation, gpu(1 - round % 2));
        EXPECT_EQ(report.outcome, Outcome::done);
      }
      over = true;
      for (const auto& thread : threads) thread->join();
      rig.expect_shown(*allocation);
      EXPECT_EQ(rig.wrong(*allocation, 7), 0u);
    });
  }
}

}  // namespace
}  // namespace vma
