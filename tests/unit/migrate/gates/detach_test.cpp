// Goal: a program may destroy a stream once it has detached it, even in the middle of a move: the
// driver is never asked about a stream that is gone. Method: a program that creates, attaches,
// detaches and destroys streams during moves, on stepped machines that switch threads by a seed and
// detect destroyed streams.
#include "unit/migrate/moves/move_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>

namespace vma {
namespace {

class Detach : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, Detach, testing::Range<std::uint64_t>(1, 7));

TEST_P(Detach, LeavesNobodyWithTheStream) {
  step(GetParam(), [](const SimOptions& options) {
    MoveRig rig("test-2", {}, options);
    AttachedStreams& attached = rig.migrator().attached();
    const BoundStream lasting = rig.new_stream(1);
    attached.attach(lasting, Address{});
    const auto allocation = rig.filled(4, gpu(0), 1, 3);
    std::atomic<bool> ended{false};
    const auto program = rig.machine().executor().spawn("program", [&] {
      for (int i = 0; i < 120; ++i) {
        const BoundStream brief =
            rig.machine().create_stream(rig.context(0), StreamKind::non_blocking);
        attached.attach(brief, Address{});
        rig.launch_spin(brief, TimePoint(20'000));
        rig.machine().wait_stream(brief, never);
        attached.detach(brief, Address{});
        rig.machine().destroy_stream(brief);
      }
      ended = true;
    });
    int given_back = 0, given_back_max = 0, moved = 0;
    for (int i = 0; !ended; ++i) {
      const SlotRange all{0, allocation->geometry().slots};
      const auto task = rig.migrator().submit(allocation, all, gpu((i + 1) % 2), {});
      task->wait();
      MigrationReport report = task->report();
      moved += report.chunks_moved;
      const int changed = report.reasons["streams_changed"];
      given_back += changed;
      given_back_max = std::max(given_back_max, changed);
      EXPECT_EQ(report.reasons.count("stream_lost"), 0u);
      EXPECT_EQ(task->error(), nullptr);
    }
    program->join();
    attached.detach(lasting, Address{});
    EXPECT_GT(moved, 0);
    EXPECT_GT(given_back, 0);
    EXPECT_LE(given_back_max, 2 * 4) << "of a chunk twice, then streams wait for it";
    EXPECT_EQ(rig.wrong(*allocation, 3), 0u);
    rig.free(allocation);
  });
}

/// Streams come and go while moves wait for their gates.
TEST_P(Detach, AllTheTimeKeepsNoMoveFromItsEnd) {
  step(GetParam(), [](const SimOptions& options) {
    constexpr int chunks = 4;
    MoveRig rig("test-2", {}, options);
    AttachedStreams& attached = rig.migrator().attached();
    const BoundStream lasting = rig.new_stream(1), brief = rig.new_stream(0);
    attached.attach(lasting, Address{});
    const auto allocation = rig.filled(chunks, gpu(0), 1, 3);
    std::atomic<bool> ended{false};
    const auto program = rig.machine().executor().spawn("program", [&] {
      while (!ended) {
        attached.attach(brief, Address{});
        sleep(rig, std::chrono::microseconds(2));
        attached.detach(brief, Address{});
      }
    });
    // Keeps gates waiting, so that the program changes its streams meanwhile.
    const auto work = rig.machine().executor().spawn("work", [&] {
      while (!ended) {
        rig.launch_spin(lasting, std::chrono::microseconds(300));
        rig.machine().wait_stream(lasting, never);
      }
    });
    for (int move = 1; move <= 4; ++move) {
      const auto task = rig.migrator().submit(allocation, {0, chunks}, gpu(move % 2), {});
      task->wait();
      EXPECT_EQ(task->error(), nullptr);
      MigrationReport report = task->report();
      EXPECT_EQ(report.chunks_moved, chunks);
      EXPECT_GT(report.reasons["streams_changed"], 0);
      EXPECT_LE(report.reasons["streams_changed"], 2 * chunks);
    }
    ended = true;
    program->join();
    work->join();
    attached.detach(lasting, Address{});
    rig.free(allocation);
  });
}

}  // namespace
}  // namespace vma
