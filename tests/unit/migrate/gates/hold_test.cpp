// Goal: a hold stops all contexts in use and releases all of them, whatever fails; it gives up
// within its limit; the watchdog opens it if its thread is stuck, but never while a slot is dark.
// All of that wherever the stream stands on which it waits.
// Method: the watchdog's cases run on a stepped machine, in virtual time.
#include "migrate/gates/hold.hpp"

#include "base/executor.hpp"
#include "driver/native_codes.hpp"
#include "migrate/stops/program_calls.hpp"
#include "unit/migrate/moves/move_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <tuple>

namespace vma {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds patience(2000);

struct HoldRig : MoveRig {
  /// Where the post stands: as for copies under a hold, in a context of the runtime's own; as for
  /// copies under nothing, in one that is held.
  explicit HoldRig(CopyUnder under, const SimOptions& options = {})
      : MoveRig("test-2", {}, options) {
    engine().prepare(gpu(0), gpu(1), 1, under);
    post = std::make_unique<HoldPost>(driver(), engine().spare_stream(gpu(0), gpu(1), under),
                                      memory().chunks().ledger());
    hold = std::make_unique<Hold>(driver(), memory().contexts(), *post, watchdog, patience);
    // The first load of a kernel's code waits for the context's work; later ones do not.
    for (int i = 0; i < 2; ++i) launch_spin(new_stream(i), TimePoint(1));
  }
  ~HoldRig() {
    fail_nothing();
    let_all_go();
    hold.reset();
    post.reset();
  }
  TimePoint in(TimePoint duration) { return machine().clock().now() + duration; }
  /// Whether a kernel launched now on each GPU runs.
  bool contexts_run() {
    for (int i = 0; i < 2; ++i) {
      const BoundStream stream = new_stream(i);
      launch_spin(stream, TimePoint(1000));
      if (!machine().wait_stream(stream, in(milliseconds(30)))) return false;
    }
    return true;
  }

  Watchdog watchdog{driver()};
  std::unique_ptr<HoldPost> post;
  std::unique_ptr<Hold> hold;
};

/// Whoever asks, whether streams may be unready for a hold, is told so only while one stands.
bool none_stands() {
  const std::chrono::nanoseconds since = ClosedHolds::of_process().since_last();
  return since.count() > 0 && since < std::chrono::nanoseconds::max();
}

class Holds : public testing::TestWithParam<CopyUnder> {};
INSTANTIATE_TEST_SUITE_P(Post, Holds, testing::Values(CopyUnder::hold, CopyUnder::nothing));

TEST_P(Holds, ReturnsWhenEarlierWorkHasEndedAndKeepsLaterWork) {
  HoldRig rig(GetParam());
  const BoundStream before = rig.new_stream(0);
  rig.launch_spin(before, milliseconds(10));
  rig.hold->close(rig.in(seconds(1)));
  EXPECT_TRUE(rig.machine().query_stream(before));
  EXPECT_EQ(ClosedHolds::of_process().since_last().count(), 0);
  const BoundStream after = rig.new_stream(1);
  rig.launch_spin(after, TimePoint(1000));
  EXPECT_FALSE(rig.machine().wait_stream(after, rig.in(milliseconds(20))));
  rig.hold->open();
  EXPECT_TRUE(rig.machine().wait_stream(after, rig.in(seconds(10))));
  EXPECT_TRUE(none_stands());
}

TEST_P(Holds, EndNoCaptureThatBeginsOnceTheyHaveLookedForCaptures) {
  HoldRig rig(GetParam());
  const BoundStream stream = rig.new_stream(0);
  std::future<void> begun;
  rig.hold->before_tries([&] {
    begun = std::async(std::launch::async, [&] {
      CaptureLock::enter();
      rig.machine().begin_capture(stream, CaptureMode::relaxed);
      CaptureLock::leave();
    });
    begun.wait_for(milliseconds(50));  // It begins at once if nothing keeps it from that.
  });
  rig.hold->close(rig.in(seconds(10)));
  begun.get();
  rig.hold->open();
  EXPECT_NO_THROW(rig.machine().destroy_graph(rig.machine().end_capture(stream)));
}

TEST_P(Holds, GivesUpWithinItsLimitAndLetsTheContextsRunOn) {
  HoldRig rig(GetParam());
  rig.launch_spin(rig.new_stream(1), std::chrono::hours(1));
  const TimePoint start = rig.machine().clock().now();
  const Error error =
      expect_error(ErrorKind::busy, [&] { rig.hold->close(start + milliseconds(100)); });
  const TimePoint took = rig.machine().clock().now() - start;
  EXPECT_GE(took, milliseconds(90));
  EXPECT_LE(took, seconds(10));
  EXPECT_GT(rig.hold->tries(), 1);
  EXPECT_TRUE(says(error, "did not end within the limit"));
  EXPECT_TRUE(rig.contexts_run());
}

TEST_P(Holds, CanBeClosedAgainAfterItGaveUp) {
  HoldRig rig(GetParam());
  const BoundStream stream = rig.new_stream(0);
  std::uint64_t* word = rig.stop(stream);
  expect_error(ErrorKind::busy, [&] { rig.hold->close(rig.in(milliseconds(20))); });
  HoldRig::let_go(word);
  rig.hold->close(rig.in(seconds(20)));
  EXPECT_TRUE(rig.machine().query_stream(stream));
  rig.hold->begin_dark();
  rig.hold->end_dark();
}

TEST_P(Holds, TriesAgainWhenItCutWorkInTwo) {
  HoldRig rig(GetParam());
  // One context waits for a word written by work of another one that is enqueued after the hold.
  const BoundStream waiter = rig.new_stream(0), writer = rig.new_stream(1);
  std::uint64_t* word = rig.stop(waiter);
  rig.forget_calls();
  const auto user = ThreadedExecutor().spawn("user", [&] {
    ASSERT_TRUE(comes_true([&] { return rig.calls(Call::hold_context) >= 2; }));
    const WordOperation write{WordOperation::Kind::write, address_of(word), 1};
    rig.machine().batch(writer, {&write, 1});
  });
  rig.hold->close(rig.in(seconds(20)));
  user->join();
  EXPECT_GE(rig.hold->tries(), 2);
  EXPECT_TRUE(rig.machine().query_stream(waiter));
}

TEST_P(Holds, IsRefusedWhileAStreamCapturesAndLetsGo) {
  HoldRig rig(GetParam());
  const BoundStream stream = rig.new_stream(1);
  rig.machine().begin_capture(stream, CaptureMode::relaxed);
  expect_error(ErrorKind::unsupported, [&] { rig.hold->close(rig.in(seconds(1))); });
  EXPECT_THROW(rig.machine().end_capture(stream), Error);
  EXPECT_TRUE(rig.contexts_run());
  rig.hold->close(rig.in(seconds(1)));
}

TEST_P(Holds, LetsGoWhateverCallFails) {
  for (const Call call : {Call::create_event, Call::batch, Call::record, Call::record_context,
                          Call::hold_context, Call::wait_event}) {
    for (const int number : {0, 1}) {
      SCOPED_TRACE(testing::Message() << to_string(call) << " " << number);
      HoldRig rig(GetParam());
      rig.fail({call}, {number});
      try {
        rig.hold->close(rig.in(seconds(1)));
        EXPECT_EQ(rig.driver().fired(), 0);
        rig.hold->open();
      } catch (const Error&) {
        EXPECT_EQ(rig.driver().fired(), 1);
      }
      rig.fail_nothing();
      EXPECT_TRUE(rig.contexts_run());
      rig.hold->close(rig.in(seconds(1)));
      rig.hold->open();
      EXPECT_TRUE(rig.contexts_run());
      EXPECT_TRUE(none_stands());
    }
  }
}

/// A driver with a context that is broken for good.
class BrokenContextDriver : public InterceptDriver {
 public:
  BrokenContextDriver(Driver& inner, ContextHandle broken)
      : InterceptDriver(inner), broken_(broken) {}
  void record_context(ContextHandle context, EventHandle event) override {
    refuse(context, "cuCtxRecordEvent");
    InterceptDriver::record_context(context, event);
  }
  void hold_context(ContextHandle context, EventHandle event) override {
    refuse(context, "cuCtxWaitEvent");
    InterceptDriver::hold_context(context, event);
  }

 private:
  void refuse(ContextHandle context, const char* call) const {
    if (context == broken_) throw driver_error(native_illegal_address, call, "on purpose");
  }
  void around(Call, const std::function<void()>& body) override { body(); }
  const ContextHandle broken_;
};

TEST_P(Holds, CountsABrokenContextAsAtRestAndHoldsTheOthers) {
  HoldRig rig(GetParam());
  BrokenContextDriver driver(rig.driver(), rig.context(0));
  Hold hold(driver, rig.memory().contexts(), *rig.post, rig.watchdog, patience);
  hold.close(rig.in(seconds(1)));
  const BoundStream stream = rig.new_stream(1);
  rig.launch_spin(stream, TimePoint(1000));
  EXPECT_FALSE(rig.machine().wait_stream(stream, rig.in(milliseconds(20))));
  hold.open();
  EXPECT_TRUE(rig.machine().wait_stream(stream, rig.in(seconds(10))));
}

TEST(HoldPosts, KeepTheirWordUntilTheirStreamHasReadIt) {
  HoldRig rig(CopyUnder::hold);
  const BoundStream stream = rig.engine().spare_stream(gpu(0), gpu(1), CopyUnder::hold);
  std::uint64_t* const late = rig.stop(stream);
  rig.hold->close(rig.in(seconds(1)));
  rig.hold.reset();
  std::atomic<bool> ended = false;
  const auto end = ThreadedExecutor().spawn("end", [&] {
    rig.post.reset();
    ended = true;
  });
  EXPECT_FALSE(rig.machine().wait_stream(stream, rig.in(milliseconds(30))));
  EXPECT_FALSE(ended);
  MoveRig::let_go(late);
  end->join();
  EXPECT_TRUE(rig.machine().query_stream(stream));
}

class SteppedHold : public testing::TestWithParam<std::tuple<std::uint64_t, CopyUnder>> {
 protected:
  /// Plays `body` with the seed and the rig of the case.
  template <typename Body>
  void play(Body&& body) {
    const auto [seed, under] = GetParam();
    step(seed, [&, where = under](const SimOptions& options) {
      HoldRig rig(where, options);
      body(rig);
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Seeds, SteppedHold,
                         testing::Combine(testing::Range<std::uint64_t>(1, 6),
                                          testing::Values(CopyUnder::hold, CopyUnder::nothing)));

TEST_P(SteppedHold, IsOpenedByTheWatchdogWhenItsThreadStandsStill) {
  play([](HoldRig& rig) {
    rig.hold->close(rig.in(seconds(10)));
    const BoundStream stream = rig.new_stream(0);
    rig.launch_spin(stream, TimePoint(1000));
    EXPECT_FALSE(rig.machine().wait_stream(stream, rig.in(patience - milliseconds(5))));
    EXPECT_TRUE(rig.machine().wait_stream(stream, rig.in(milliseconds(10))));
    expect_error(ErrorKind::busy, [&] { rig.hold->begin_dark(); });
    EXPECT_TRUE(none_stands());
    rig.hold->open();
    rig.hold->close(rig.in(seconds(10)));  // It can be used again.
    rig.hold->begin_dark();
    rig.hold->end_dark();
    rig.hold->open();
    EXPECT_TRUE(none_stands());
  });
}

TEST_P(SteppedHold, StaysClosedWhileItsThreadIsAlive) {
  play([](HoldRig& rig) {
    rig.hold->close(rig.in(seconds(10)));
    const BoundStream stream = rig.new_stream(0);
    rig.launch_spin(stream, TimePoint(1000));
    for (int round = 0; round < 10; ++round) {
      EXPECT_FALSE(rig.machine().wait_stream(stream, rig.in(patience / 2)));
      rig.hold->alive();
    }
    EXPECT_NO_THROW(rig.hold->begin_dark());
    rig.hold->end_dark();
  });
}

TEST_P(SteppedHold, IsOpenedByNobodyWhileASlotIsDark) {
  play([](HoldRig& rig) {
    rig.hold->close(rig.in(seconds(10)));
    const BoundStream stream = rig.new_stream(0);
    rig.launch_spin(stream, TimePoint(1000));
    rig.hold->begin_dark();
    EXPECT_FALSE(rig.machine().wait_stream(stream, rig.in(10 * patience)));
    StopWord::open_all();
    EXPECT_FALSE(rig.machine().wait_stream(stream, rig.in(milliseconds(50))));
    rig.hold->end_dark();
    rig.hold->open();
    EXPECT_TRUE(rig.machine().wait_stream(stream, rig.in(seconds(1))));
  });
}

TEST_P(SteppedHold, DarkensNothingOnceTheExitOfTheProcessHasOpenedIt) {
  play([](HoldRig& rig) {
    rig.hold->close(rig.in(seconds(10)));
    StopWord::open_all();
    const BoundStream stream = rig.new_stream(0);
    rig.launch_spin(stream, TimePoint(1000));
    EXPECT_TRUE(rig.machine().wait_stream(stream, rig.in(milliseconds(50))));
    expect_error(ErrorKind::busy, [&] { rig.hold->begin_dark(); });
    rig.hold->open();
  });
}

TEST_P(SteppedHold, StopsTheContextsOfAttachedStreams) {
  play([](HoldRig& rig) {
    const OwnContextStream own(rig);
    rig.launch_spin(own.stream, milliseconds(10));
    rig.hold->close(rig.in(seconds(10)));
    EXPECT_TRUE(rig.machine().query_stream(own.stream)) << "its earlier work was not waited for";
    rig.launch_spin(own.stream, TimePoint(1000));
    EXPECT_FALSE(rig.machine().wait_stream(own.stream, rig.in(milliseconds(50))));
    rig.hold->open();
    EXPECT_TRUE(rig.machine().wait_stream(own.stream, rig.in(milliseconds(50))));
  });
}

/// A program that guards the calls by which it enqueues, and refuses the first tries.
class GuardedProgram {
 public:
  explicit GuardedProgram(int refusals) : refusals_(refusals) {
    ProgramEnqueues::of_process().store(&calls_);
  }
  ~GuardedProgram() { ProgramEnqueues::of_process().store(nullptr); }

  std::atomic<bool> holds_back = false;
  int asked = 0;
  std::chrono::nanoseconds longest{0};  ///< That it may take to answer.

 private:
  static const char* begin(std::int64_t limit_ns, void* data) {
    auto& self = *static_cast<GuardedProgram*>(data);
    ++self.asked;
    self.longest = std::max(self.longest, std::chrono::nanoseconds(limit_ns));
    EXPECT_GT(limit_ns, 0);
    if (self.refusals_-- > 0) return "a thread is inside a launch";
    self.holds_back = true;
    return nullptr;
  }
  static void end(void* data) { static_cast<GuardedProgram*>(data)->holds_back = false; }

  const ProgramEnqueues calls_{begin, end, this};
  std::atomic<int> refusals_;
};

/// A hold beside such a program. A function of the test runs before each call of the driver.
struct GuardedHold : HoldRig {
  class BeforeCalls final : public InterceptDriver {
   public:
    using Before = std::function<void(Call, const GuardedProgram&)>;
    BeforeCalls(Driver& inner, const GuardedProgram& program, Before before)
        : InterceptDriver(inner), program_(program), before_(std::move(before)) {}

   private:
    void around(Call call, const std::function<void()>& body) override {
      before_(call, program_);
      body();
    }
    const GuardedProgram& program_;
    const Before before_;
  };

  GuardedHold(CopyUnder under, int refusals, BeforeCalls::Before before)
      : HoldRig(under),
        program(refusals),
        driver(HoldRig::driver(), program, std::move(before)),
        guarded(driver, memory().contexts(), *post, watchdog, patience) {}

  GuardedProgram program;
  BeforeCalls driver;
  Hold guarded;
};

/// The program is held back while contexts are stopped, and no longer.
void expect_held_back(Call call, const GuardedProgram& program) {
  const bool stops = call == Call::record_context || call == Call::hold_context;
  const bool waits = call == Call::wait_event;  // For work that may need more of it to end.
  EXPECT_TRUE(program.holds_back ? !waits : !stops) << to_string(call);
}

// Work that is enqueued between the two calls for a context would be neither waited for nor held.
TEST_P(Holds, LetNothingBeEnqueuedWhileTheyStopContexts) {
  GuardedHold rig(GetParam(), 0, expect_held_back);
  rig.guarded.close(rig.in(seconds(10)));
  EXPECT_FALSE(rig.program.holds_back);
  rig.guarded.open();
}

// Its records of contexts would end captures of which only the program knows.
TEST_P(Holds, LetNothingBeEnqueuedWhileTheyRecordContexts) {
  GuardedHold rig(GetParam(), 1, expect_held_back);
  rig.guarded.await_work(rig.in(seconds(10)));
  EXPECT_EQ(rig.program.asked, 2);
  EXPECT_FALSE(rig.program.holds_back);
  GuardedProgram captures(1 << 20);
  expect_error(ErrorKind::busy, [&] { rig.guarded.await_work(rig.in(milliseconds(100))); });
}

// A record may wait behind a call that waits for what another thread would enqueue.
TEST_P(Holds, LetTheProgramEnqueueIfARecordBlocks) {
  GuardedHold rig(GetParam(), 0, [](Call call, const GuardedProgram& program) {
    while (call == Call::record_context && program.holds_back) std::this_thread::yield();
  });
  const Error error =
      expect_error(ErrorKind::busy, [&] { rig.guarded.await_work(rig.in(milliseconds(100))); });
  EXPECT_TRUE(says(error, "let go on")) << error.what();
  EXPECT_FALSE(rig.program.holds_back);
}

TEST_P(Holds, AskAgainWhileAThreadEnqueues) {
  HoldRig rig(GetParam());
  GuardedProgram program(2);
  rig.hold->close(rig.in(seconds(10)));
  EXPECT_EQ(program.asked, 3);
  EXPECT_LE(program.longest, milliseconds(5)) << "all other threads wait for as long";
}

TEST_P(Holds, SayWhyTheProgramCannotBeKeptFromEnqueuing) {
  HoldRig rig(GetParam());
  GuardedProgram program(1 << 20);
  const Error error =
      expect_error(ErrorKind::busy, [&] { rig.hold->close(rig.in(milliseconds(100))); });
  EXPECT_TRUE(says(error, "inside a launch"));
  EXPECT_TRUE(rig.contexts_run());
}

TEST_P(Holds, AreOpenedForGoodAtTheEndOfTheProcess) {
  HoldRig rig(GetParam());
  rig.hold->close(rig.in(seconds(1)));
  const BoundStream stream = rig.new_stream(0);
  rig.launch_spin(stream, TimePoint(1000));
  StopWord::open_all();
  EXPECT_TRUE(rig.machine().wait_stream(stream, rig.in(seconds(20))));
}

}  // namespace
}  // namespace vma
