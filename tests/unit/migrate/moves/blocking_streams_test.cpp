// Goal: moves beside blocking streams and the legacy stream that orders them: a capture of one
// delays a move and no later one, and a program whose streams wait for each other through the
// legacy stream is stopped by that stream at the second try. Method: a stepped machine with a
// program's thread.
#include "unit/migrate/moves/move_rig.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace vma {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

class BlockingStreams : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, BlockingStreams, testing::Range<std::uint64_t>(1, 5));

/// Memory to move, and blocking streams of gpu(0), which are not attached yet.
struct BlockingRig {
  explicit BlockingRig(const SimOptions& options) : rig("test-2", {}, options) {
    for (int i = 0; i < 2; ++i) {
      streams.push_back(rig.machine().create_stream(rig.context(0), StreamKind::blocking));
      rig.launch_spin(streams.back(), TimePoint(1));  // The first load waits for the context.
    }
    rig.launch_spin(legacy, TimePoint(1));
  }
  ~BlockingRig() {
    for (const BoundStream stream : attached) rig.migrator().attached().detach(stream, Address{});
    for (const BoundStream stream : streams) {
      rig.machine().wait_stream(stream, never);
      rig.machine().destroy_stream(stream);
    }
    rig.free(allocation);
  }
  void attach(BoundStream stream) {
    rig.migrator().attached().attach(stream, Address{});
    attached.push_back(stream);
  }
  std::shared_ptr<MigrationTask> submit(Place to) {
    return rig.migrator().submit(allocation, {0, 1}, to, {});
  }
  void expect_moved(MigrationTask& task, Place to) {
    task.wait();
    EXPECT_EQ(task.report().outcome, Outcome::done);
    EXPECT_NO_THROW({
      if (task.error()) std::rethrow_exception(task.error());
    });
    EXPECT_EQ(allocation->place(0), to);
  }

  MoveRig rig;
  const BoundStream legacy{rig.context(0), StreamHandle{}};
  std::vector<BoundStream> streams, attached;
  const std::shared_ptr<Allocation> allocation = rig.filled(4, gpu(0), 4, 7);
};

TEST_P(BlockingStreams, DelayAMoveWhileOneCapturesAndNoLaterOne) {
  step(GetParam(), [](const SimOptions& options) {
    BlockingRig blocking(options);
    blocking.attach(blocking.legacy);
    blocking.attach(blocking.streams[0]);
    SimDriver& machine = blocking.rig.machine();
    machine.begin_capture(blocking.streams[0], CaptureMode::relaxed);
    const auto delayed = blocking.submit(gpu(1));
    sleep(blocking.rig, milliseconds(500));
    EXPECT_FALSE(delayed->done());
    GraphHandle graph{};
    ASSERT_NO_THROW(graph = machine.end_capture(blocking.streams[0]));
    machine.destroy_graph(graph);
    blocking.expect_moved(*delayed, gpu(1));
    const auto next = blocking.submit(gpu(0));
    blocking.expect_moved(*next, gpu(0));
    EXPECT_EQ(next->report().retries, 0);
    EXPECT_EQ(blocking.rig.wrong(*blocking.allocation, 7), 0u);
  });
}

/// Launches to two blocking streams and the legacy stream by turns, never far ahead.
class ThroughLegacy {
 public:
  explicit ThroughLegacy(BlockingRig& blocking) : blocking_(blocking) {
    task_ = blocking.rig.machine().executor().spawn("program", [this] { run(); });
  }
  ~ThroughLegacy() {
    ended_ = true;
    task_->join();
  }

 private:
  void run() {
    while (!ended_) {
      for (const BoundStream stream : blocking_.streams) {
        blocking_.rig.launch_spin(stream, microseconds(200));
        blocking_.rig.launch_spin(blocking_.legacy, microseconds(200));
      }
      blocking_.rig.machine().wait_stream(blocking_.legacy, never);
    }
  }
  BlockingRig& blocking_;
  bool ended_ = false;  // Only one thread runs at a time.
  std::unique_ptr<Task> task_;
};

TEST(BlockingStreamsTest, AreStoppedTogetherOnceSeparateStopsHaveFailed) {
  constexpr int moves = 20;
  // How often stops wait for each other differs between builds.
  constexpr std::uint64_t least = 4, most = 64;
  int failed = 0;
  for (std::uint64_t seed = 1; seed <= least || (failed == 0 && seed <= most); ++seed) {
    step(seed, [&](const SimOptions& options) {
      BlockingRig blocking(options);
      for (const BoundStream stream : blocking.streams) blocking.attach(stream);
      const ThroughLegacy program(blocking);
      bool together = false;
      for (int move = 0; move < moves; ++move) {
        const Place to = gpu((move + 1) % 2);
        const auto task = blocking.submit(to);
        blocking.expect_moved(*task, to);
        const int retries = task->report().retries;
        EXPECT_LE(retries, together ? 0 : 1) << "move " << move;
        together = together || retries > 0;
        for (const auto& it : blocking.rig.migrator().attached().in_scope(Address{}))
          EXPECT_EQ(it.together, together);
      }
      failed += together ? 1 : 0;
      EXPECT_EQ(blocking.rig.wrong(*blocking.allocation, 7), 0u);
    });
  }
  EXPECT_GT(failed, 0) << "or no stop ever waited for another";
}

}  // namespace
}  // namespace vma
