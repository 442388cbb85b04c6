// Goal: what a program has detached it may destroy, in the middle of any move: the driver is never
// asked about a stream that is gone. Method: a program that makes, attaches, detaches and destroys
// streams beside moves, on stepped machines that change threads by a seed and know lost streams.
#include "unit/migrate/move_rig.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

namespace vma {
namespace {

class Detach : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, Detach, testing::Range<std::uint64_t>(1, 7));

TEST_P(Detach, LeavesNobodyWithTheStream) {
  step(GetParam(), [](const SimOptions& options) {
    MoveRig rig("test-2", {}, options);
    AttachedStreams& attached = rig.mover().attached();
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
    int given_back = 0, moved = 0;
    for (int i = 0; !ended; ++i) {
      const SlotRange all{0, allocation->geometry().slots};
      const auto task = rig.mover().submit(allocation, all, gpu((i + 1) % 2), {});
      task->wait();
      MigrationReport report = task->report();
      moved += report.chunks_moved;
      given_back += report.reasons["streams_changed"];
      EXPECT_EQ(report.reasons.count("stream_lost"), 0u);
      if (!task->error()) continue;
      // Beside one that comes and goes all the time a chunk may not get its turn.
      expect_error(ErrorKind::busy, [&] { std::rethrow_exception(task->error()); });
    }
    program->join();
    attached.detach(lasting, Address{});
    EXPECT_GT(moved, 0);
    EXPECT_GT(given_back, 0);
    EXPECT_EQ(rig.wrong(*allocation, 3), 0u);
    rig.free(allocation);
  });
}

}  // namespace
}  // namespace vma
