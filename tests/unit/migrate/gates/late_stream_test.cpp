// Goal: one stream whose backlog cannot be predicted does not keep a move from closing its gates:
// the idle streams beside it stop when it has arrived, not when it was expected. Method: a stepped
// machine on which a program launches far ahead, waits for all of it, and starts again.
#include "support/drivers/intercept_driver.hpp"
#include "unit/migrate/gates/gate_rig.hpp"
#include "unit/migrate/moves/move_rig.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace vma {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

class LateStream : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, LateStream, testing::Range<std::uint64_t>(1, 5));

/// Launches 40 kernels to the legacy stream, half a second to a second of work, and waits for it.
class FarAhead {
 public:
  FarAhead(MoveRig& rig, std::uint64_t seed) : rig_(rig), random_(seed) {
    task_ = rig.machine().executor().spawn("program", [this] { run(); });
  }
  ~FarAhead() {
    ended_ = true;
    task_->join();
  }

 private:
  void run() {
    constexpr int ahead = 40;
    const BoundStream legacy{rig_.context(0), StreamHandle{}};
    while (!ended_) {
      const TimePoint kernel = microseconds(12'500 + random_() % 12'500);
      for (int i = 0; i < ahead; ++i) rig_.launch_spin(legacy, kernel);
      rig_.machine().wait_stream(legacy, never);
    }
  }
  MoveRig& rig_;
  std::mt19937_64 random_;
  bool ended_ = false;  // Only one thread runs at a time.
  std::unique_ptr<Task> task_;
};

/// Moves memory to and fro beside such a program and two idle streams.
void move_beside(const SimOptions& options, std::uint64_t seed, std::uint64_t chunks, int moves,
                 const MigrateOptions& how) {
  MoveRig rig("test-2", {}, options);
  MigratorLimits limits;
  limits.gate_limit_max = milliseconds(80);
  Migrator migrator(rig.memory(), rig.engine(), limits);
  const auto allocation = rig.filled(4 * chunks, gpu(0), 4, 7);
  const BoundStream legacy{rig.context(0), StreamHandle{}};
  const std::vector<BoundStream> streams{legacy, rig.new_stream(0), rig.new_stream(0)};
  for (const BoundStream stream : streams) {
    rig.launch_spin(stream, TimePoint(1));  // The first load waits for the context.
    migrator.attached().attach(stream, Address{});
  }
  {
    const FarAhead program(rig, seed);
    for (int move = 0; move < moves; ++move) {
      const auto task = migrator.submit(allocation, {0, chunks}, gpu((move + 1) % 2), how);
      task->wait();
      const MigrationReport report = task->report();
      EXPECT_EQ(report.outcome, Outcome::done);
      EXPECT_EQ(report.reasons.count("predicted_skew"), 0u);
      EXPECT_EQ(report.gate_limit, limits.gate_limit) << "streams stopped in vain";
      EXPECT_LE(report.skew.max, milliseconds(1));
    }
  }
  EXPECT_EQ(rig.wrong(*allocation, 7), 0u);
  for (const BoundStream stream : streams) migrator.attached().detach(stream, Address{});
  rig.free(allocation);
}

TEST_P(LateStream, IsWaitedForBeforeIdleStreamsStop) {
  step(GetParam(), [](const SimOptions& options) { move_beside(options, GetParam(), 1, 6, {}); });
}

TEST_P(LateStream, IsWaitedForAtGatesBehindEachOther) {
  step(GetParam(), [](const SimOptions& options) {
    MigrateOptions how;
    how.max_stall = microseconds(1);  // A gate for each chunk.
    move_beside(options, GetParam(), 8, 2, how);
  });
}

/// Launches work of the program just before the first stop of a gate.
class BeforeStop : public InterceptDriver {
 public:
  BeforeStop(Driver& inner, std::function<void()> before)
      : InterceptDriver(inner), before_(std::move(before)) {}
  void next_gate() { stopped_ = false; }

 private:
  void around(Call call, const std::function<void()>& body) override {
    if (call == Call::stop && !std::exchange(stopped_, true)) before_();
    body();
  }
  const std::function<void()> before_;
  bool stopped_ = false;
};

// The probes find all streams idle; when the stops come, one of them is not.
TEST_P(LateStream, IsToldFirstAfterAGateThatItMissed) {
  step(GetParam(), [](const SimOptions& options) {
    GateRig rig(options);
    const std::vector<BoundStream> streams = rig.attach_some(3);
    BeforeStop driver(rig.driver(), [&] { rig.launch_spin(streams[1], milliseconds(300)); });
    const auto gate = rig.gate_over(driver);
    GateLimits limits = GateRig::patient();
    limits.arrival_limit = limits.arrival_limit_min = milliseconds(5);
    EXPECT_EQ(why(gate->try_close(rig.plan(), limits)), StopRefusal::not_arrived);
    EXPECT_TRUE(rig.run({streams[0], streams[2]}));
    for (int round = 0; round < 4; ++round) {
      rig.machine().wait_stream(streams[1], never);
      sleep(rig, milliseconds(50));
      driver.next_gate();
      ASSERT_EQ(why(gate->try_close(rig.plan(), limits)), StopRefusal::none);
      EXPECT_LE(gate->times().skew(), milliseconds(1));
      gate->open();
    }
  });
}

TEST_P(LateStream, ThatNeverArrivesStopsNoOther) {
  step(GetParam(), [](const SimOptions& options) {
    GateRig rig(options);
    const std::vector<BoundStream> streams = rig.attach_some(3);
    rig.launch_spin(streams[0], milliseconds(10));  // The probe sees it.
    BeforeStop driver(rig.driver(), [&] { rig.stop(streams[0]); });
    const auto gate = rig.gate_over(driver);
    GateLimits limits = GateRig::patient();
    limits.wait_limit = milliseconds(500);
    limits.look_limit = seconds(1);
    const TimePoint begin = rig.now();
    rig.forget_calls();
    const auto refusal = gate->try_close(rig.plan(), limits);
    ASSERT_EQ(why(refusal), StopRefusal::not_arrived);
    EXPECT_NE(refusal->detail.find("1 of 3 streams"), std::string::npos) << refusal->detail;
    EXPECT_NE(refusal->detail.find("nothing was stopped"), std::string::npos) << refusal->detail;
    EXPECT_EQ(rig.calls(Call::stop), 1);
    EXPECT_GE(rig.now() - begin, limits.wait_limit);
    EXPECT_LE(rig.now() - begin, limits.wait_limit + milliseconds(50));
    EXPECT_TRUE(rig.run({streams[1], streams[2]}));
    rig.let_all_go();
    EXPECT_TRUE(rig.runs(streams[0]));
  });
}

}  // namespace
}  // namespace vma
