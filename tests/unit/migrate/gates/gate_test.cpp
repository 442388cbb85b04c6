// Goal: a closed gate stops every stream of its plan and no other, and no stream stays stopped
// whatever happens. Method: operating system threads. Tests that need exact times are in
// gate_stepped_test.cpp, those of failures in gate_failure_test.cpp.
#include "migrate/gates/enqueued_stops.hpp"
#include "unit/migrate/gates/gate_rig.hpp"

#include <gtest/gtest.h>

#include <atomic>

namespace vma {
namespace {

using std::chrono::milliseconds;

TEST(Gate, StandsBehindEarlierWorkAndBeforeLaterWork) {
  step(1, [](const SimOptions& options) {
    GateRig rig(options);
    std::vector<BoundStream> streams = rig.attach_some(3, 0);
    streams.push_back(rig.attach_new(1));
    std::vector<EventHandle> earlier;
    for (const BoundStream stream : streams) {
      rig.launch_spin(stream, milliseconds(1));
      earlier.push_back(rig.machine().create_event(stream.context));
      rig.machine().record(earlier.back(), stream);
    }
    EXPECT_EQ(why(rig.try_close()), StopRefusal::none);
    EXPECT_EQ(rig.gate().state(), Gate::State::closed);
    for (const EventHandle event : earlier) {
      EXPECT_TRUE(rig.machine().query_event(event));
      rig.machine().destroy_event(event);
    }
    for (const BoundStream stream : streams) EXPECT_FALSE(rig.runs(stream));
    EXPECT_TRUE(rig.runs(rig.new_stream(0))) << "a stream that is not attached";
    rig.gate().open();
    EXPECT_TRUE(rig.run(streams));
  });
}

TEST(Gate, ClosesAgainAndAgain) {
  GateRig rig;
  const std::vector<BoundStream> streams = rig.attach_some(2);
  for (int round = 0; round < 50; ++round) {
    ASSERT_EQ(why(rig.try_close()), StopRefusal::none);
    ASSERT_TRUE(rig.gate().commit());
    ASSERT_EQ(rig.gate().state(), Gate::State::committed);
    ASSERT_FALSE(rig.machine().query_stream(streams[0]));
    rig.gate().open();
    ASSERT_EQ(rig.gate().state(), Gate::State::open);
    ASSERT_TRUE(rig.machine().wait_stream(streams[0], never));
  }
  EXPECT_LE(rig.calls(Call::allocate_pinned), 1);
}

TEST(Gate, TellsWhenItsStreamsCameAndWent) {
  GateRig rig;
  rig.attach_some(3);
  const TimePoint before = rig.now();
  ASSERT_EQ(why(rig.try_close()), StopRefusal::none);
  rig.launch_spin(rig.new_stream(1), TimePoint(1));
  rig.gate().open();
  const GateTimes times = rig.gate().times();
  EXPECT_GE(times.first_arrival, before);
  EXPECT_GE(times.skew(), TimePoint(0));
  EXPECT_GE(times.stall(), TimePoint(0));
  EXPECT_LE(times.opened, rig.now());
}

TEST(Arrivals, KnowTheFirstAndTheLast) {
  step(1, [](const SimOptions& options) {
    GateRig rig(options);
    std::uint64_t words[2] = {6, 6};  // Of an earlier gate.
    Arrivals arrivals(rig.machine().clock(), 7, 2);
    for (const std::size_t index : {0u, 1u}) arrivals.expect(index, &words[index]);
    arrivals.look();
    EXPECT_FALSE(arrivals.any());
    words[1] = 7;
    arrivals.look();
    const TimePoint first = arrivals.first();
    sleep(rig, std::chrono::milliseconds(1));
    words[0] = 7;
    arrivals.look();
    EXPECT_TRUE(arrivals.all());
    EXPECT_EQ(arrivals.first(), first);
    EXPECT_GE(arrivals.last(), first + std::chrono::milliseconds(1));
  });
}

TEST(Gate, StopsTheLegacyStreamInPlaceOfBlockingOnes) {
  GateRig rig;
  const BoundStream bound = rig.attach_new(0, StreamKind::blocking);
  const BoundStream free = rig.attach_new(0);
  const BoundStream unnamed = rig.new_blocking_stream(0);
  rig.attached().attach({rig.context(0), {}}, Address{});
  rig.launch_spin(bound, milliseconds(1));
  EXPECT_EQ(rig.plan().stops.size(), 2u);
  EXPECT_EQ(why(rig.try_close()), StopRefusal::none);
  for (const BoundStream stream : {bound, free, unnamed, BoundStream{rig.context(0), {}}}) {
    EXPECT_FALSE(rig.runs(stream));
  }
  EXPECT_TRUE(rig.runs(rig.new_stream(0)));
  EXPECT_TRUE(rig.runs(rig.new_blocking_stream(1))) << "of another context";
  rig.gate().open();
  EXPECT_TRUE(rig.run({bound, free, unnamed}));
}

TEST(Gate, HoldsNoBlockingStreamForTheBacklogOfAnother) {
  step(1, [](const SimOptions& options) {
    GateRig rig(options);
    const BoundStream busy = rig.attach_new(0, StreamKind::blocking);
    const BoundStream other = rig.attach_new(0, StreamKind::blocking);
    const GatePlan plan = rig.plan();
    rig.post().prepare(plan);
    GateLimits limits = GateRig::patient();
    limits.look_limit = std::chrono::seconds(5);
    rig.launch_spin(busy, std::chrono::seconds(2));
    ASSERT_EQ(why(rig.gate().look(plan, limits)), StopRefusal::none);
    rig.launch_spin(busy, std::chrono::seconds(2));
    ASSERT_EQ(why(rig.gate().send(plan, limits)), StopRefusal::none);
    EXPECT_TRUE(rig.runs(other));
    EXPECT_TRUE(rig.runs(rig.new_blocking_stream(0)));
    ASSERT_EQ(why(rig.gate().close()), StopRefusal::none);
    EXPECT_FALSE(rig.run({other})) << "or it was not stopped at all";
    EXPECT_TRUE(rig.runs(rig.new_blocking_stream(0))) << "it is not attached";
    rig.gate().open();
    EXPECT_TRUE(rig.run({busy, other}));
  });
}

TEST(Gate, StopsAPerThreadStreamOfAnotherThread) {
  GateRig rig;
  const BoundStream own{rig.context(0), StreamHandle{2}};
  std::atomic<int> stage{0};
  const auto user = ThreadedExecutor().spawn("user", [&] {
    rig.attached().attach(own, Address{});
    rig.launch_spin(own, milliseconds(1));
    stage = 1;
    EXPECT_TRUE(comes_true([&] { return stage == 2; }));
    EXPECT_FALSE(rig.runs(own));
    stage = 3;
    EXPECT_TRUE(comes_true([&] { return stage == 4; }));
    EXPECT_TRUE(rig.runs(own));
  });
  EXPECT_TRUE(comes_true([&] { return stage == 1; }));
  EXPECT_EQ(why(rig.try_close()), StopRefusal::none);
  stage = 2;
  EXPECT_TRUE(comes_true([&] { return stage == 3; }));
  rig.gate().open();
  stage = 4;
  user->join();
}

TEST(Gate, StopsStreamsWithoutGraphsByABatch) {
  GateRig rig;
  const BoundStream with = rig.attach_new(0), without = rig.new_stream(0);
  rig.attached().attach(without, Address{}, StreamWork::no_graphs);
  rig.forget_calls();
  ASSERT_EQ(why(rig.try_close()), StopRefusal::none);
  EXPECT_FALSE(rig.runs(with));
  EXPECT_FALSE(rig.runs(without));
  EXPECT_EQ(rig.calls(Call::make_chain), 1);
  EXPECT_EQ(rig.calls(Call::stop), 1);
  EXPECT_EQ(rig.calls(Call::batch), 2 + 1 /* both are probed */);
  rig.gate().open();
  EXPECT_TRUE(rig.run({with, without}));
}

TEST(Gate, SaysThatItWasOpenedLate) {
  GateRig rig;
  const BoundStream stream = rig.attach_new(0);
  std::atomic<int> late{0};
  Gate gate(rig.driver(), rig.post(), [&] { ++late; });
  GateLimits limits = GateRig::patient();
  ASSERT_EQ(why(gate.try_close(rig.plan(), limits)), StopRefusal::none);
  gate.open();
  EXPECT_EQ(late, 0) << "not by the watchdog";
  limits.settle_limit = milliseconds(5);
  ASSERT_EQ(why(gate.try_close(rig.plan(), limits)), StopRefusal::none);
  EXPECT_TRUE(poll_until(rig.driver().clock(), rig.in(std::chrono::seconds(20)),
                         [&] { return late == 1; }));
  EXPECT_FALSE(gate.commit());
  EXPECT_TRUE(rig.runs(stream));
}

TEST(Gate, LooksWithoutLoadingWhatStopsStreams) {
  GateRig rig;
  rig.attach_some(2);
  rig.forget_calls();
  ASSERT_EQ(why(rig.gate().look(rig.plan(), GateRig::patient())), StopRefusal::none);
  EXPECT_EQ(rig.calls(Call::make_chain), 0) << "a load may wait for the program's work";
  ASSERT_EQ(why(rig.try_close()), StopRefusal::none);
  EXPECT_EQ(rig.calls(Call::make_chain), 2);
}

TEST(Gate, IsGivenUpOnceAStreamIsWantedBack) {
  for (const int streams : {1, 3}) {  // Several streams are looked at first.
    GateRig rig;
    const BoundStream stuck = rig.attach_some(streams).back();
    std::uint64_t* word = rig.stop(stuck);
    std::atomic<bool> wanted{false};
    GateLimits limits = GateRig::patient();
    limits.given_up = [&wanted] { return wanted.load(); };
    const auto program = ThreadedExecutor().spawn("program", [&] { wanted = true; });
    EXPECT_EQ(why(rig.gate().try_close(rig.plan(), limits)), StopRefusal::streams_changed);
    EXPECT_EQ(rig.gate().state(), Gate::State::open);
    EXPECT_EQ(why(rig.gate().look(rig.plan(), limits)), StopRefusal::streams_changed);
    GateRig::let_go(word);
    EXPECT_TRUE(rig.runs(stuck));
    program->join();
    limits.given_up = nullptr;
    EXPECT_EQ(why(rig.gate().try_close(rig.plan(), limits)), StopRefusal::none);
  }
}

TEST(Gate, HasNothingToStop) {
  GateRig rig;
  EXPECT_EQ(why(rig.try_close()), StopRefusal::stream_lost);
  EXPECT_EQ(rig.gate().state(), Gate::State::open);
}

TEST(Gate, IsRefusedBeforeAStreamThatCaptures) {
  GateRig rig;
  const std::vector<BoundStream> streams = rig.attach_some(2);
  rig.machine().begin_capture(streams[1], CaptureMode::relaxed);
  rig.forget_calls();
  EXPECT_EQ(why(rig.try_close()), StopRefusal::capture);
  EXPECT_EQ(rig.calls(Call::batch) + rig.calls(Call::stop), 0);
  EXPECT_TRUE(rig.runs(streams[0]));
  rig.machine().destroy_graph(rig.machine().end_capture(streams[1]));
  EXPECT_EQ(why(rig.try_close()), StopRefusal::none);
}

TEST(Gate, IsRefusedBeforeABlockingStreamThatCaptures) {
  GateRig rig;
  const BoundStream attached = rig.attach_new(0, StreamKind::blocking);
  const BoundStream other = rig.new_blocking_stream(0);
  rig.attached().attach({rig.context(0), {}}, {});  // So the gate stops the legacy stream.
  for (const BoundStream stream : {attached, other}) {
    rig.machine().begin_capture(stream, CaptureMode::relaxed);
    EXPECT_EQ(why(rig.try_close()), StopRefusal::capture);
    rig.machine().destroy_graph(rig.machine().end_capture(stream));
  }
  EXPECT_EQ(why(rig.try_close()), StopRefusal::none);
}

TEST(Gate, StopsABlockingStreamByItselfWhateverOthersCapture) {
  GateRig rig;
  const BoundStream attached = rig.attach_new(0, StreamKind::blocking);
  const BoundStream other = rig.new_blocking_stream(0);
  rig.machine().begin_capture(other, CaptureMode::relaxed);
  ASSERT_EQ(why(rig.try_close()), StopRefusal::none);
  EXPECT_FALSE(rig.runs(attached));
  rig.gate().open();
  EXPECT_TRUE(rig.runs(attached));
  GraphHandle graph{};
  ASSERT_NO_THROW(graph = rig.machine().end_capture(other));
  rig.machine().destroy_graph(graph);
}

TEST(Gate, IsGivenUpWhereThereAreMoreStopsThanQueues) {
  GateRig rig;
  const std::vector<BoundStream> streams = rig.attach_some(10);  // The machine has 8.
  GateLimits limits = GateRig::patient();
  limits.arrival_limit = milliseconds(200);
  for (int round = 0; round < 3; ++round) {
    const auto refusal = rig.gate().try_close(rig.plan(), limits);
    ASSERT_EQ(why(refusal), StopRefusal::not_arrived);
    EXPECT_NE(refusal->detail.find("2 of 10 streams"), std::string::npos) << refusal->detail;
    EXPECT_TRUE(rig.run(streams));
  }
  for (int i = 0; i < 2; ++i) rig.attached().detach(streams[static_cast<std::size_t>(i)], {});
  EXPECT_EQ(why(rig.try_close()), StopRefusal::none);
}

TEST(Gate, IsGivenUpWhenItCutsWorkInTwo) {
  GateRig rig;
  const std::vector<BoundStream> streams = rig.attach_some(2);
  ASSERT_EQ(why(rig.try_close()), StopRefusal::none);  // Now the backlogs are known.
  // The word that one stream waits for is written by work behind the gate on the other one.
  std::uint64_t* word = rig.stop(streams[0]);
  GateLimits limits = GateRig::patient();
  limits.arrival_limit = milliseconds(20);
  rig.gate().open();
  EXPECT_EQ(why(rig.gate().try_close(rig.plan(), limits)), StopRefusal::not_arrived);
  const WordOperation write{WordOperation::Kind::write, address_of(word), 1};
  rig.machine().batch(streams[1], {&write, 1});
  EXPECT_TRUE(rig.machine().wait_stream(streams[0], rig.in(std::chrono::seconds(20))));
  EXPECT_EQ(why(rig.try_close()), StopRefusal::none);
}

TEST(Gate, DoesNotWaitForEverForWorkThatDoesNotEnd) {
  GateRig rig;
  const BoundStream stream = rig.attach_new(0);
  std::uint64_t* word = rig.stop(stream);
  GateLimits limits = GateRig::patient();
  limits.wait_limit = milliseconds(20);
  EXPECT_EQ(why(rig.gate().try_close(rig.plan(), limits)), StopRefusal::not_arrived);
  rig.attach_new(0);  // With two, the backlogs are looked at first, which stops nothing.
  rig.forget_calls();
  EXPECT_EQ(why(rig.gate().try_close(rig.plan(), limits)), StopRefusal::not_arrived);
  EXPECT_EQ(rig.calls(Call::batch), 2);
  EXPECT_EQ(rig.calls(Call::stop), 0);
  GateRig::let_go(word);
  EXPECT_EQ(why(rig.try_close()), StopRefusal::none);
}

TEST(Gate, NoticesAStreamThatWasDestroyed) {
  GateRig rig;
  const std::vector<BoundStream> streams = rig.attach_some(2);
  const BoundStream dies = rig.machine().create_stream(rig.context(0), StreamKind::non_blocking);
  rig.attached().attach(dies, {});
  ASSERT_EQ(why(rig.try_close()), StopRefusal::none);
  rig.gate().open();
  rig.machine().destroy_stream(dies);
  EXPECT_EQ(why(rig.try_close()), StopRefusal::stream_lost);
  EXPECT_TRUE(rig.run(streams));
  EXPECT_EQ(rig.attached().drop_lost({}).size(), 1u);
  EXPECT_EQ(why(rig.try_close()), StopRefusal::none);
}

TEST(Gate, OpensWhenItGoesWhateverItsState) {
  for (const Gate::State state : {Gate::State::open, Gate::State::closed, Gate::State::committed}) {
    GateRig rig;
    const std::vector<BoundStream> streams = rig.attach_some(2);
    if (state != Gate::State::open) {
      ASSERT_EQ(why(rig.try_close()), StopRefusal::none);
      ASSERT_EQ(state == Gate::State::closed || rig.gate().commit(), true);
    }
    EXPECT_EQ(rig.gate().state(), state);
    rig.destroy_gate();
    EXPECT_TRUE(rig.run(streams));
  }
}

TEST(Gate, IsOpenedAtTheEndOfTheProcess) {
  GateRig rig;
  const std::vector<BoundStream> streams = rig.attach_some(2);
  ASSERT_EQ(why(rig.try_close()), StopRefusal::none);
  StopWord::open_all();
  EXPECT_TRUE(rig.run(streams));
  EXPECT_FALSE(rig.gate().commit()) << "I2: its streams run";
  rig.gate().open();
  // From now on no stream can be stopped, so no gate closes.
  EXPECT_EQ(why(rig.try_close()), StopRefusal::opened_by_watchdog);
}

TEST(Gate, IsOpenedByNobodyOnceItIsCommitted) {
  GateRig rig;
  const std::vector<BoundStream> streams = rig.attach_some(2);
  ASSERT_EQ(why(rig.try_close()), StopRefusal::none);
  ASSERT_TRUE(rig.gate().commit());
  StopWord::open_all();
  for (const BoundStream stream : streams) EXPECT_FALSE(rig.runs(stream));
  rig.gate().open();
  EXPECT_TRUE(rig.run(streams));
}

TEST(GatePost, GivesWordsOfStreamsThatAreGoneToOthers) {
  GateRig rig;
  for (int round = 0; round < 1'500; ++round) {
    GatePlan plan;  // The streams of a plan need not exist until the gate is closed.
    plan.stops.push_back({{rig.context(0), StreamHandle(1'000 + round)}, {}, true});
    rig.post().prepare(plan);
    rig.post().prune();
  }
  EXPECT_EQ(rig.calls(Call::make_chain), 1'500);
  EXPECT_GE(rig.calls(Call::destroy_exec_graph), 400) << "those of streams that are gone";
  EXPECT_LE(rig.calls(Call::allocate_pinned), 1'100 * 64 / 4096 + 1);
  rig.attach_some(3);
  EXPECT_EQ(why(rig.try_close()), StopRefusal::none);
}

}  // namespace
}  // namespace vma
