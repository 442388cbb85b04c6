// Goal: whichever call fails, and wherever a capture, a broken context or late work of another gate
// interferes, no stream stays stopped, and no stream counts as stopped that is not.
#include "support/drivers/intercept_driver.hpp"
#include "driver/native_codes.hpp"
#include "unit/migrate/gates/gate_rig.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>

namespace vma {
namespace {

using std::chrono::milliseconds;

/// Runs a function of the test before each call reaches the driver.
class BeforeDriver : public InterceptDriver {
 public:
  BeforeDriver(Driver& inner, std::function<void(Call, int)> before)
      : InterceptDriver(inner), before_(std::move(before)) {}
  void batch(BoundStream stream, std::span<const WordOperation> operations) override {
    stream_ = stream;
    InterceptDriver::batch(stream, operations);
  }
  void stop(BoundStream stream, ExecGraphHandle chain,
            std::span<const WordOperation> words) override {
    stream_ = stream;
    InterceptDriver::stop(stream, chain, words);
  }
  void note_stopped(int change) noexcept override { stopped += change; }
  BoundStream stream() const { return stream_; }
  int stopped = 0;

 private:
  void around(Call call, const std::function<void()>& body) override {
    before_(call, calls_[call]++);
    body();
  }
  const std::function<void(Call, int)> before_;
  std::map<Call, int> calls_;
  BoundStream stream_;  // Of the current batch or stop.
};

TEST(GateFailure, LeavesNoStreamStandingWhateverCallFails) {
  constexpr int calls_max = 60;
  int number = 0;
  for (bool fired = true; fired && number < calls_max; ++number) {
    SCOPED_TRACE(testing::Message() << "call " << number);
    GateRig rig;
    std::vector<BoundStream> streams = rig.attach_some(3);
    streams.push_back(rig.attach_new(1, StreamKind::blocking));
    const GatePlan plan = rig.plan();
    rig.fail({}, {number});
    try {
      EXPECT_EQ(why(rig.gate().try_close(plan, GateRig::patient())), StopRefusal::none);
      EXPECT_EQ(rig.driver().fired(), 0);
      rig.gate().open();
    } catch (const Error&) {
      EXPECT_EQ(rig.gate().state(), Gate::State::open);
    }
    fired = rig.driver().fired() > 0;
    rig.fail_nothing();
    EXPECT_TRUE(rig.run(streams));
    EXPECT_EQ(why(rig.try_close()), StopRefusal::none);
    rig.gate().open();
    EXPECT_TRUE(rig.run(streams));
  }
  EXPECT_GT(number, 15);
  EXPECT_LT(number, calls_max);
}

TEST(GateFailure, LeavesNoStreamStandingWhenEveryLaterCallFails) {
  constexpr int calls_max = 60;
  for (int number = 0; number < calls_max; number += 3) {
    SCOPED_TRACE(testing::Message() << "from call " << number);
    GateRig rig;
    const std::vector<BoundStream> streams = rig.attach_some(3);
    std::set<int> numbers;
    for (int i = number; i < 200; ++i) numbers.insert(i);
    rig.fail({}, numbers);
    try {
      rig.try_close();
      rig.gate().open();
    } catch (const Error&) {
    }
    EXPECT_EQ(rig.gate().state(), Gate::State::open);
    rig.fail_nothing();
    EXPECT_TRUE(rig.run(streams));
  }
}

/// Closes a gate while one of its streams begins a capture before the n-th batch or stop. Returns
/// the refusal; the capture continues.
StopRefusal::Why close_into_capture(GateRig& rig, BoundStream captured, int enqueued) {
  BeforeDriver driver(rig.driver(), [&](Call call, int) {
    if ((call == Call::batch || call == Call::stop) && enqueued-- == 0) {
      rig.machine().begin_capture(captured, CaptureMode::relaxed);
    }
  });
  const auto gate = rig.gate_over(driver);
  const StopRefusal::Why refusal = why(gate->try_close(rig.plan(), GateRig::patient()));
  EXPECT_EQ(gate->state(), Gate::State::open);
  EXPECT_EQ(driver.stopped, 0);
  return refusal;
}

TEST(GateFailure, IsRefusedWhenACaptureBeginsBetweenTwoCalls) {
  for (int enqueued = 0; enqueued < 4; ++enqueued) {  // Two for the probe, two for the stop.
    SCOPED_TRACE(enqueued);
    GateRig rig;
    const std::vector<BoundStream> streams = rig.attach_some(2);
    EXPECT_EQ(close_into_capture(rig, streams[1], enqueued), StopRefusal::capture);
    EXPECT_TRUE(rig.runs(streams[0]));
    const GraphHandle graph = rig.machine().end_capture(streams[1]);
    rig.machine().destroy_graph(graph);
    EXPECT_TRUE(rig.runs(streams[1]));
    EXPECT_EQ(why(rig.try_close()), StopRefusal::none);
  }
}

TEST(GateFailure, PutsNoStopIntoACaptureThatBeganBeforeIt) {
  GateRig rig;
  const BoundStream stream = rig.attach_new(0);
  int stops = 0;
  BeforeDriver driver(rig.driver(), [&](Call call, int number) {
    // The gate has already asked once, and asks again just before the stop.
    if (call == Call::is_capturing && number == 1)
      rig.machine().begin_capture(stream, CaptureMode::relaxed);
    stops += call == Call::stop ? 1 : 0;
  });
  const auto gate = rig.gate_over(driver);
  EXPECT_EQ(why(gate->try_close(rig.plan(), GateRig::patient())), StopRefusal::capture);
  EXPECT_EQ(stops, 0) << "the program's graph has a stop of ours";
  rig.machine().destroy_graph(rig.machine().end_capture(stream));
  EXPECT_TRUE(rig.runs(stream));
}

TEST(GateFailure, IsRefusedWhenABlockingStreamBeginsToCapture) {
  for (const bool at_legacy : {false, true}) {
    GateRig rig;
    const BoundStream stream = rig.attach_new(0, StreamKind::blocking);
    if (at_legacy) rig.attached().attach({rig.context(0), {}}, {});
    EXPECT_EQ(close_into_capture(rig, stream, 0), StopRefusal::capture);
    if (at_legacy) {
      // The driver has invalidated the capture; meanwhile it refuses all work on the legacy stream.
      EXPECT_THROW(rig.machine().end_capture(stream), Error);
    } else {
      rig.machine().destroy_graph(rig.machine().end_capture(stream));
    }
    EXPECT_TRUE(rig.runs(stream));
    EXPECT_EQ(why(rig.try_close()), StopRefusal::none);
  }
}

Address open_word(GatePost& post) {
  return post.open_word().wait_for(1).word;
}

TEST(GateFailure, TakesOtherWordsAfterACapture) {
  std::shared_ptr<const std::atomic<std::uint64_t>> leaks, kept;
  {
    GateRig rig;
    leaks = rig.memory().chunks().ledger().leak_count();
    kept = rig.memory().chunks().ledger().kept_count();
    const BoundStream stream = rig.attach_new(0);
    const GatePlan plan = rig.plan();
    rig.post().prepare(plan);
    const auto* const arrived = rig.post().state_of(plan.stops[0]).arrived;
    const Address open = open_word(rig.post());
    ASSERT_EQ(close_into_capture(rig, stream, 0), StopRefusal::capture);
    rig.machine().destroy_graph(rig.machine().end_capture(stream));
    ASSERT_EQ(why(rig.try_close()), StopRefusal::none);
    EXPECT_NE(rig.post().state_of(plan.stops[0]).arrived, arrived);
    EXPECT_NE(open_word(rig.post()), open);
    EXPECT_EQ(*kept, 0u);
  }
  EXPECT_EQ(*kept, 1u) << "the graph may outlive the post: the memory stays";
  EXPECT_EQ(*leaks, 0u) << "nothing has failed";
}

TEST(GateFailure, KeepsTheWordsThatAStreamWillStillWrite) {
  GateRig rig;
  const BoundStream stream = rig.attach_new(0);
  Ledger& ledger = rig.memory().chunks().ledger();
  auto post = std::make_unique<GatePost>(rig.driver(), rig.watchdog(), ledger);
  {
    Gate gate(rig.driver(), *post);
    rig.stop(stream);
    GateLimits limits = GateRig::patient();
    limits.wait_limit = milliseconds(20);
    EXPECT_EQ(why(gate.try_close(rig.plan(), limits)), StopRefusal::not_arrived);
  }
  const std::uint64_t leaks = ledger.leaks();
  post.reset();
  EXPECT_EQ(ledger.leaks(), leaks + 1);
  rig.let_all_go();
  EXPECT_TRUE(rig.runs(stream));
}

/// A gate that gives up asks a late stream once more, behind work that the program has launched
/// meanwhile.
TEST(GateFailure, KeepsTheWordsThatALateStreamWillWriteOnceMore) {
  GateRig rig;
  const BoundStream stream = rig.attach_new(0);
  Ledger& ledger = rig.memory().chunks().ledger();
  auto post = std::make_unique<GatePost>(rig.driver(), rig.watchdog(), ledger);
  std::uint64_t* const before = rig.stop(stream);
  std::uint64_t* behind = nullptr;
  const GatePlan plan = rig.plan();
  {
    Gate gate(rig.driver(), *post);
    GateLimits limits = GateRig::patient();
    limits.wait_limit = milliseconds(20);
    limits.given_up = [&] {  // The stop has been enqueued.
      if (behind == nullptr) behind = rig.stop(stream);
      return false;
    };
    EXPECT_EQ(why(gate.try_close(plan, limits)), StopRefusal::not_arrived);
  }
  const std::atomic_ref arrived(*post->state_of(plan.stops[0]).arrived);
  GateRig::let_go(before);
  EXPECT_TRUE(comes_true([&] { return arrived != 0; })) << "behind the stop";
  const std::uint64_t leaks = ledger.leaks();
  post.reset();
  EXPECT_EQ(ledger.leaks(), leaks + 1);
  rig.let_all_go();
  EXPECT_TRUE(rig.runs(stream));
}

TEST(GateFailure, IsNeitherOpenedNorReachedByAGraphThatReplaysIt) {
  GateRig rig;
  const BoundStream stream = rig.attach_new(0), other = rig.attach_new(0);
  ASSERT_EQ(close_into_capture(rig, stream, 3), StopRefusal::capture);
  const GraphHandle graph = rig.machine().end_capture(stream);
  const ExecGraphHandle replay = rig.machine().instantiate(graph);
  const BoundStream player = rig.new_stream(0);

  // It neither stops the stream that replays it nor opens a gate.
  ASSERT_EQ(why(rig.try_close()), StopRefusal::none);
  rig.machine().launch_graph(player, replay);
  EXPECT_TRUE(rig.machine().wait_stream(player, rig.in(std::chrono::seconds(20))));
  EXPECT_FALSE(rig.runs(stream));
  EXPECT_FALSE(rig.runs(other));
  rig.gate().open();

  // Nor does it count as an arrival of the stream that it was captured from.
  EXPECT_TRUE(rig.run({stream, other}));
  ASSERT_EQ(why(rig.try_close()), StopRefusal::none);
  rig.gate().open();
  rig.stop(stream);
  GateLimits limits = GateRig::patient();
  limits.arrival_limit = milliseconds(50);
  BeforeDriver driver(rig.driver(), [&](Call call, int number) {
    if (call == Call::is_capturing && number == 5) rig.machine().launch_graph(player, replay);
  });
  const auto gate = rig.gate_over(driver);
  EXPECT_EQ(why(gate->try_close(rig.plan(), limits)), StopRefusal::not_arrived);
  rig.let_all_go();
  rig.machine().wait_stream(player, never);
  rig.machine().destroy_exec_graph(replay);
  rig.machine().destroy_graph(graph);
}

TEST(GateFailure, CallsNothingButWhatIsHarmlessWhileWorkStands) {
  GateRig rig;
  const std::vector<BoundStream> streams = rig.attach_some(3);
  std::set<Call> beside;
  BeforeDriver* asked = nullptr;
  BeforeDriver driver(rig.driver(), [&](Call call, int) {
    if (asked->stopped > 0) beside.insert(call);
  });
  asked = &driver;
  const auto gate = rig.gate_over(driver);
  EXPECT_EQ(why(gate->try_close(rig.plan(), GateRig::patient())), StopRefusal::none);
  EXPECT_EQ(driver.stopped, 1);
  EXPECT_EQ(beside, (std::set<Call>{Call::stop, Call::is_capturing}));
  gate->open();
  EXPECT_EQ(driver.stopped, 0);
  gate->open();
  EXPECT_EQ(driver.stopped, 0);
  EXPECT_TRUE(rig.run(streams));
}

TEST(GateFailure, CountsABrokenContextAsArrivedAndStopsTheOthers) {
  for (const bool all : {false, true}) {
    GateRig rig;
    rig.attach_new(0);
    const BoundStream stream = rig.attach_new(1);
    BeforeDriver* asked = nullptr;
    BeforeDriver driver(rig.driver(), [&](Call call, int) {
      if (call != Call::batch && call != Call::stop) return;
      if (!all && asked->stream().context != rig.context(0)) return;
      throw driver_error(native_illegal_address, "cuGraphLaunch", "on purpose");
    });
    asked = &driver;
    const auto gate = rig.gate_over(driver);
    EXPECT_EQ(why(gate->try_close(rig.plan(), GateRig::patient())), StopRefusal::none);
    EXPECT_EQ(rig.runs(stream), all);
    gate->open();
    EXPECT_TRUE(rig.runs(stream));
  }
}

TEST(GateFailure, CountsAContextThatTakesNoChainAsArrived) {
  GateRig rig;
  rig.attach_new(0);
  const BoundStream stream = rig.attach_new(1);
  BeforeDriver driver(rig.driver(), [&](Call call, int number) {
    const bool of_first = call == Call::make_chain && number == 0;
    if (!of_first && (call != Call::batch || number % 2 != 0)) return;
    throw driver_error(native_illegal_address, "cuGraphInstantiate", "on purpose");
  });
  GatePost post(driver, rig.watchdog(), rig.memory().chunks().ledger());
  Gate gate(driver, post);
  EXPECT_EQ(why(gate.try_close(rig.plan(), GateRig::patient())), StopRefusal::none);
  EXPECT_FALSE(rig.runs(stream));
  gate.open();
  EXPECT_TRUE(rig.runs(stream));
}

TEST(GateFailure, CountsAContextThatBreaksLaterAsArrived) {
  GateRig rig;
  const BoundStream breaks = rig.attach_new(0), stream = rig.attach_new(1);
  ASSERT_EQ(why(rig.try_close()), StopRefusal::none);
  rig.gate().open();
  rig.machine().wait_stream(breaks, never);
  rig.stop(breaks);  // Its stop is enqueued but will never run.
  BeforeDriver* asked = nullptr;
  BeforeDriver driver(rig.driver(), [&](Call call, int) {
    if (call != Call::batch || asked->stopped == 0) return;
    throw driver_error(native_illegal_address, "cuStreamBatchMemOp", "on purpose");
  });
  asked = &driver;
  const auto gate = rig.gate_over(driver);
  GateLimits limits = GateRig::patient();
  limits.arrival_limit = milliseconds(200);
  EXPECT_EQ(why(gate->try_close(rig.plan(), limits)), StopRefusal::none);
  EXPECT_FALSE(rig.runs(stream));
  gate->open();
  rig.let_all_go();
  EXPECT_TRUE(rig.runs(stream));
}

}  // namespace
}  // namespace vma
