// Goal: no slot goes dark while a copy is being enqueued, and no copy begins while one may be dark,
// so that the driver finds the operands; a copy that waits for stopped work delays a stop and does
// not hang it. Method: threads of the operating system; stops are gates and holds of a simulated
// machine.
#include "migrate/stops/copy_scopes.hpp"

#include "migrate/gates/hold.hpp"
#include "unit/migrate/gates/gate_rig.hpp"
#include "unit/migrate/moves/move_rig.hpp"

#include <vma/migration.hpp>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

namespace vma {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A thread that enqueues copies without a pause, in scopes, and looks for a stop meanwhile.
class Copying {
 public:
  explicit Copying(const std::atomic<bool>& stopped)
      : thread_([this, &stopped] {
          while (!ended_) {
            const CopyScope scope;
            const bool before = stopped;
            ++copies_;
            if (before || stopped) ++beside_;
          }
        }) {}
  ~Copying() {
    ended_ = true;
    thread_.join();
  }
  void await_some() const {
    const int seen = copies_;
    while (copies_ < seen + 10) std::this_thread::yield();
  }
  int beside() const { return beside_; }

 private:
  std::atomic<bool> ended_{false};
  std::atomic<int> copies_{0}, beside_{0};
  std::thread thread_;
};

/// A thread that has a scope until `end`.
class OpenScope {
 public:
  OpenScope()
      : thread_([this] {
          const CopyScope scope;
          open_ = true;
          open_.notify_all();
          ended_.wait(false);
        }) {
    open_.wait(false);
  }
  ~OpenScope() { end(); }
  void end() {
    ended_ = true;
    ended_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::atomic<bool> open_{false}, ended_{false};
  std::thread thread_;
};

TEST(CopyScopes, AreNeverOpenBesideAClosedGate) {
  GateRig rig;
  const std::vector<BoundStream> streams = rig.attach_some(2);
  std::atomic<bool> closed = false;
  const Copying one(closed), other(closed);
  for (int round = 0; round < 50; ++round) {
    one.await_some();
    while (rig.try_close()) {
    }
    closed = true;
    ASSERT_TRUE(rig.gate().commit());
    std::this_thread::yield();
    closed = false;
    rig.gate().open();
  }
  other.await_some();
  EXPECT_EQ(one.beside() + other.beside(), 0);
}

TEST(CopyScopes, ThatStayOpenEndATryOfAGateAndStopNothing) {
  GateRig rig;
  const std::vector<BoundStream> streams = rig.attach_some(2);
  OpenScope scope;
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_EQ(why(rig.try_close()), StopRefusal::copies_busy);
    EXPECT_EQ(rig.gate().state(), Gate::State::open);
    EXPECT_TRUE(rig.run(streams));
    const CopyScope nothing_is_held_back;
  }
  scope.end();
  EXPECT_EQ(why(rig.try_close()), StopRefusal::none);
}

/// The first try has found a copy under way; this one stops nothing before that has ended.
TEST(CopyScopes, AreWaitedForBeforeTheNextTry) {
  GateRig rig;
  const std::vector<BoundStream> streams = rig.attach_some(2);
  OpenScope scope;
  ASSERT_EQ(why(rig.try_close()), StopRefusal::copies_busy);
  const auto stops = [&] { return rig.calls(Call::stop) + rig.calls(Call::batch); };
  const int before = stops();
  ASSERT_EQ(why(rig.try_close()), StopRefusal::copies_busy);
  EXPECT_EQ(stops(), before);
  std::thread ends([&] { scope.end(); });
  while (rig.try_close()) {
  }
  EXPECT_EQ(rig.gate().state(), Gate::State::closed);
  ends.join();
}

/// As a synchronous copy on a stopped stream does.
TEST(CopyScopes, MayWaitForWorkThatTheStopHolds) {
  GateRig rig;
  const std::vector<BoundStream> streams = rig.attach_some(1);
  const GatePlan plan = rig.plan();
  ASSERT_FALSE(rig.gate().send(plan, GateRig::patient()));
  std::atomic<bool> inside = false;
  std::thread copies([&] {
    const CopyScope scope;
    inside = true;
    EXPECT_TRUE(rig.machine().wait_stream(streams[0], never));
  });
  while (!inside) std::this_thread::yield();
  std::optional<StopRefusal> refusal = rig.gate().close();
  copies.join();
  // If the thread saw the stream before it stopped, the gate has closed.
  EXPECT_TRUE(!refusal || refusal->why == StopRefusal::copies_busy);
}

TEST(CopyScopes, GoOnWhenTheWatchdogOpensAGate) {
  GateRig rig;
  const std::vector<BoundStream> streams = rig.attach_some(1);
  GateLimits brief = GateRig::patient();
  brief.settle_limit = milliseconds(1);
  const GatePlan plan = rig.plan();
  ASSERT_FALSE(rig.gate().try_close(plan, brief));
  const CopyScope scope;  // Returns once the watchdog has opened the gate.
  EXPECT_FALSE(rig.gate().commit());
}

TEST(CopyScopes, AreNeverOpenBesideAHold) {
  MoveRig rig("test-2");
  const auto allocation = rig.filled(2, gpu(0), 2, 7);
  std::atomic<bool> never_set = false;
  const Copying copies(never_set);
  for (int round = 0; round < 20; ++round) {
    copies.await_some();
    MigrateOptions options;
    options.deadline = seconds(60);
    rig.move(*allocation, gpu((round + 1) % 2), options);
    EXPECT_EQ(allocation->place(0), gpu((round + 1) % 2));
  }
}

TEST(CopyScopes, ThatStayOpenMakeAHoldBusy) {
  MoveRig rig("test-2");
  const auto allocation = rig.filled(2, gpu(0), 2, 7);
  MigrateOptions options;
  options.deadline = milliseconds(300);
  std::optional<CopyScope> scope(std::in_place);
  const Error error =
      expect_error(ErrorKind::busy, [&] { rig.move(*allocation, gpu(1), options); });
  EXPECT_TRUE(says(error, "CopyScope")) << error.what();
  EXPECT_EQ(allocation->place(0), gpu(0));
  scope.reset();
  rig.move(*allocation, gpu(1), options);
  EXPECT_EQ(allocation->place(0), gpu(1));
}

TEST(CopyScopes, OfOneThreadNestAndAStopWaitsForTheOuterOne) {
  GateRig rig;
  const std::vector<BoundStream> streams = rig.attach_some(1);
  std::optional<CopyScope> outer(std::in_place);
  std::atomic<bool> closing = false;
  std::thread stops([&] {
    closing = true;
    while (rig.try_close()) {
    }
  });
  while (!closing) std::this_thread::yield();
  for (int inner = 0; inner < 1000; ++inner) {
    const CopyScope scope;  // Does not wait, although a stop waits for the outer one.
    EXPECT_TRUE(CopyScopes::here());
  }
  EXPECT_NE(rig.gate().state(), Gate::State::closed);
  outer.reset();
  stops.join();
  EXPECT_EQ(rig.gate().state(), Gate::State::closed);
  EXPECT_FALSE(CopyScopes::here());
  CopyScopes::process().leave();  // One that was never entered.
}

/// All copies of the program would wait as long as the backlog, and the backlog perhaps for one.
TEST(CopyScopes, AreLetGoIfNoStreamArrivesSoon) {
  GateRig rig;
  const std::vector<BoundStream> streams = rig.attach_some(1);
  {
    OpenScope in_the_way;
    ASSERT_EQ(why(rig.try_close()), StopRefusal::copies_busy);
  }
  auto* const word = static_cast<std::uint64_t*>(
      rig.machine().allocate_pinned(streams[0].context, sizeof(std::uint64_t)));
  *word = 0;
  const WordOperation wait{WordOperation::Kind::wait_until_at_least, address_of(word), 1};
  rig.machine().batch(streams[0], {&wait, 1});
  Gate::State seen = Gate::State::open;
  std::thread copies([&] {
    while (rig.gate().state() != Gate::State::closing) std::this_thread::yield();
    const CopyScope scope;
    seen = rig.gate().state();
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
  });
  EXPECT_EQ(why(rig.try_close()), StopRefusal::none);
  copies.join();
  EXPECT_EQ(seen, Gate::State::closing);
  rig.gate().open();
  ASSERT_TRUE(rig.machine().wait_stream(streams[0], never));
  rig.machine().free_pinned(streams[0].context, word);
}

/// However short the part of its time is that a hold gives to the first tries.
TEST(CopyScopes, MayLastLongBeforeAHoldThatHasTime) {
  MoveRig rig("test-2");
  const auto allocation = rig.filled(2, gpu(0), 2, 7);
  MigrateOptions options;
  options.deadline = seconds(3'600);
  OpenScope scope;
  std::thread ends([&] {
    while (!CopyScopes::process().were_in_the_way()) std::this_thread::yield();
    sleep(rig, seconds(2));
    scope.end();
  });
  rig.move(*allocation, gpu(1), options);
  ends.join();
  EXPECT_EQ(allocation->place(0), gpu(1));
}

TEST(CopyScopes, DoNotWaitInAChildForkedMeanwhile) {
  GateRig rig;
  rig.attach_some(1);
  ASSERT_FALSE(rig.try_close());
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    { const CopyScope scope; }
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace vma
