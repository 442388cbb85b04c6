// Goal: what is enqueued before a hold runs under it once earlier work has ended, and only then; a
// hold that does not close leaves nothing of it behind. Method: copies of one word by streams of
// the contexts that are held.
#include "migrate/gates/hold.hpp"

#include "support/test_kernels.hpp"
#include "unit/migrate/moves/move_rig.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

namespace vma {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Copies a word of pinned memory in a stream of gpu(0)'s primary context.
struct WordCopies final : BeforeHold {
  explicit WordCopies(MoveRig& rig)
      : rig(rig),
        stream(rig.new_stream(0)),
        words(static_cast<std::uint64_t*>(
            rig.machine().allocate_pinned(rig.context(0), 2 * sizeof(std::uint64_t)))) {}
  ~WordCopies() override {
    rig.machine().wait_stream(stream, never);
    rig.machine().free_pinned(rig.context(0), words);
  }

  std::uint64_t& source() { return words[0]; }
  std::uint64_t copied() { return __atomic_load_n(&words[1], __ATOMIC_ACQUIRE); }

  void enqueue(std::span<const EventHandle> at_rest, TimePoint) override {
    if (before_enqueue) before_enqueue();
    for (const EventHandle event : at_rest) rig.driver().stream_wait_event(stream, event);
    rig.driver().copy(stream, address_of(&words[1]), address_of(&words[0]), sizeof words[0]);
    ++enqueued;
  }
  void recall(TimePoint deadline) override {
    ++recalled;
    if (before_recall) before_recall();
    if (!rig.machine().wait_stream(stream, deadline)) {
      throw Error(ErrorKind::busy, "recall", "not in time");
    }
  }

  MoveRig& rig;
  const BoundStream stream;
  std::uint64_t* const words;
  std::function<void()> before_enqueue, before_recall;
  int enqueued = 0, recalled = 0;
};

struct AheadRig : MoveRig {
  AheadRig() : copies(std::make_unique<WordCopies>(*this)) {
    engine().prepare(gpu(0), gpu(1), 1, CopyUnder::nothing);
    post = std::make_unique<HoldPost>(driver(),
                                      engine().spare_stream(gpu(0), gpu(1), CopyUnder::nothing),
                                      memory().chunks().ledger());
    hold = std::make_unique<Hold>(driver(), memory().contexts(), *post, watchdog, seconds(2));
    hold->enqueues(copies.get());
    // The first load of a kernel's code waits for the context's work; later ones do not.
    for (int i = 0; i < 2; ++i) launch_spin(new_stream(i), TimePoint(1));
  }
  ~AheadRig() {
    fail_nothing();
    let_all_go();
    hold.reset();
    post.reset();
    copies.reset();
  }
  TimePoint in(TimePoint duration) { return machine().clock().now() + duration; }
  /// As a synchronous move does it.
  void close(TimePoint duration) {
    const TimePoint deadline = in(duration);
    hold->await_work(deadline);
    hold->close(deadline);
  }
  bool runs(BoundStream stream) { return machine().wait_stream(stream, in(milliseconds(30))); }
  /// Whether a kernel launched now on each GPU runs.
  bool contexts_run() {
    for (int i = 0; i < 2; ++i) {
      const BoundStream stream = new_stream(i);
      launch_spin(stream, TimePoint(1000));
      if (!runs(stream)) return false;
    }
    return true;
  }

  Watchdog watchdog{driver()};
  std::unique_ptr<WordCopies> copies;
  std::unique_ptr<HoldPost> post;
  std::unique_ptr<Hold> hold;
};

TEST(BeforeHold, WorkRunsUnderTheHoldThatKeepsLaterWork) {
  AheadRig rig;
  rig.copies->source() = 7;
  rig.close(seconds(1));
  EXPECT_EQ(rig.hold->tries(), 1);
  EXPECT_EQ(rig.copies->enqueued, 1);
  EXPECT_TRUE(rig.machine().wait_stream(rig.copies->stream, rig.in(seconds(1))));
  EXPECT_EQ(rig.copies->copied(), 7u);
  const BoundStream later = rig.new_stream(0), there = rig.new_stream(1);
  for (const BoundStream stream : {later, there}) rig.launch_spin(stream, TimePoint(1000));
  EXPECT_FALSE(rig.runs(later));
  EXPECT_FALSE(rig.runs(there));
  rig.hold->open();
  EXPECT_TRUE(rig.runs(later));
  EXPECT_TRUE(rig.runs(there));
}

TEST(BeforeHold, WorkWaitsForAllWorkSubmittedBefore) {
  AheadRig rig;
  // Submitted after the hold has waited for earlier work, and in the other context.
  const BoundStream there = rig.new_stream(1);
  std::uint64_t* word = nullptr;
  rig.copies->source() = 1;
  rig.hold->before_tries([&] {
    if (rig.calls(Call::record_context) == 2) word = rig.stop(there);
  });
  rig.forget_calls();
  const auto user = ThreadedExecutor().spawn("user", [&] {
    ASSERT_TRUE(comes_true([&] { return rig.calls(Call::hold_context) == 2; }));
    EXPECT_EQ(rig.copies->copied(), 0u) << "the work of the other context has not ended";
    rig.copies->source() = 2;
    MoveRig::let_go(word);
  });
  rig.close(seconds(60));
  user->join();
  EXPECT_TRUE(rig.machine().wait_stream(rig.copies->stream, never));
  EXPECT_EQ(rig.copies->copied(), 2u);
}

TEST(BeforeHold, ContextsThatComeIntoUseAfterTheWaitAreHeldToo) {
  AheadRig rig;
  {
    const OwnContextStream destroyed_meanwhile(rig);
    rig.hold->await_work(rig.in(seconds(1)));
  }
  const OwnContextStream other(rig);
  rig.launch_spin(other.stream, TimePoint(1));  // Loads the kernel.
  rig.hold->close(rig.in(seconds(1)));
  rig.launch_spin(other.stream, TimePoint(1000));
  EXPECT_FALSE(rig.runs(other.stream));
  rig.hold->open();
  EXPECT_TRUE(rig.runs(other.stream));
}

TEST(BeforeHold, ContextsThatAreNoLongerInUseGetTheirEventBack) {
  AheadRig rig;
  const OwnContextStream other(rig);
  rig.hold->await_work(rig.in(seconds(1)));
  rig.migrator().attached().detach(other.stream, Address{});
  rig.forget_calls();
  rig.hold->close(rig.in(seconds(1)));
  EXPECT_EQ(rig.calls(Call::destroy_event), 1);
  EXPECT_EQ(rig.calls(Call::hold_context), 2) << "of the GPUs' primary contexts";
  rig.hold->open();
  rig.migrator().attached().attach(other.stream, Address{});
}

TEST(BeforeHold, NothingIsEnqueuedWhileABacklogDoesNotEnd) {
  AheadRig rig;
  rig.launch_spin(rig.new_stream(1), std::chrono::hours(1));
  rig.forget_calls();
  expect_error(ErrorKind::busy, [&] { rig.close(milliseconds(100)); });
  EXPECT_EQ(rig.copies->enqueued, 0);
  EXPECT_EQ(rig.calls(Call::hold_context), 0) << "nothing was stopped";
  EXPECT_EQ(rig.hold->tries(), 0);
}

TEST(BeforeHold, IsCalledBackAndEnqueuedAgainWhenTheHoldCutWorkInTwo) {
  AheadRig rig;
  // One context waits for a word written by work of another one that is enqueued after the hold.
  const BoundStream waiter = rig.new_stream(0), writer = rig.new_stream(1);
  std::uint64_t* word = nullptr;
  rig.copies->source() = 1;
  rig.copies->before_enqueue = [&] {
    if (rig.copies->enqueued > 0) rig.copies->source() = 5;  // Written while the hold was open.
  };
  rig.hold->before_tries([&] {
    if (word == nullptr && rig.calls(Call::record_context) == 2) word = rig.stop(waiter);
  });
  rig.forget_calls();
  const auto user = ThreadedExecutor().spawn("user", [&] {
    ASSERT_TRUE(comes_true([&] { return rig.calls(Call::hold_context) >= 2; }));
    const WordOperation write{WordOperation::Kind::write, address_of(word), 1};
    rig.machine().batch(writer, {&write, 1});
  });
  rig.close(seconds(20));
  user->join();
  EXPECT_GE(rig.hold->tries(), 2);
  EXPECT_EQ(rig.copies->enqueued, rig.hold->tries());
  EXPECT_EQ(rig.copies->recalled, rig.hold->tries() - 1);
  EXPECT_TRUE(rig.machine().wait_stream(rig.copies->stream, rig.in(seconds(1))));
  EXPECT_EQ(rig.copies->copied(), 5u);
}

TEST(BeforeHold, IsNotEnqueuedAgainBeforeABacklogHasEnded) {
  AheadRig rig;
  const BoundStream there = rig.new_stream(1);
  std::uint64_t* word = nullptr;
  rig.hold->before_tries([&] {
    // Not by the first wait, but by the first try.
    if (rig.calls(Call::record_context) == 2) word = rig.stop(there);
  });
  rig.copies->before_recall = [&] {
    rig.launch_spin(there, milliseconds(500));
    MoveRig::let_go(word);
  };
  rig.forget_calls();
  rig.close(seconds(2));
  EXPECT_EQ(rig.copies->recalled, 1);
  EXPECT_EQ(rig.hold->tries(), 2);
}

TEST(BeforeHold, ThatThrowsLeavesTheContextsRunning) {
  AheadRig rig;
  rig.copies->before_enqueue = [] { throw Error(ErrorKind::driver_failure, "enqueue", "no"); };
  expect_error(ErrorKind::driver_failure, [&] { rig.close(seconds(1)); });
  EXPECT_TRUE(rig.contexts_run());
  rig.copies->before_enqueue = {};
  rig.close(seconds(1));
}

TEST(BeforeHold, LetsGoWhateverCallFails) {
  for (const Call call :
       {Call::create_event, Call::batch, Call::record, Call::record_context, Call::hold_context,
        Call::wait_event, Call::stream_wait_event, Call::copy}) {
    for (const int number : {0, 1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << to_string(call) << " " << number);
      AheadRig rig;
      rig.fail({call}, {number});
      try {
        rig.close(seconds(1));
        EXPECT_EQ(rig.driver().fired(), 0);
        rig.hold->open();
      } catch (const Error&) {
        EXPECT_EQ(rig.driver().fired(), 1);
      }
      rig.fail_nothing();
      EXPECT_TRUE(rig.contexts_run());
      rig.close(seconds(1));
      rig.hold->open();
      EXPECT_TRUE(rig.contexts_run());
    }
  }
}

}  // namespace
}  // namespace vma
