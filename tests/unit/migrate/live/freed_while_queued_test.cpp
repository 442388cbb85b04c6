// Goal: a migration whose memory was freed while it was queued, and whose addresses and chunks
// belong to another allocation by now, ends without touching them, also when it joins a live move.
// Method: a stepped machine; the first move waits for a lock while the queued memory is freed.
#include "unit/migrate/moves/move_rig.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>

namespace vma {
namespace {

class FreedWhileQueued : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, FreedWhileQueued, testing::Range<std::uint64_t>(1, 5));

TEST_P(FreedWhileQueued, MemoryJoinsNoLiveMove) {
  step(GetParam(), [](const SimOptions& options) {
    MoveRig rig("test-2", {}, options);
    const BoundStream stream = rig.new_stream(0);
    rig.migrator().attached().attach(stream, Address{});
    const auto first = rig.filled(2, gpu(0), 2, 1);
    auto freed = rig.filled(2, gpu(0), 2, 9);
    const Address begin = freed->begin();
    MigrateOptions how;
    how.mode = Mode::live;
    how.max_stall = std::chrono::seconds(1);
    MutexLock operations(first->operations());
    const auto leader = rig.migrator().submit(first, {0, 1}, gpu(1), how);
    sleep(rig, std::chrono::milliseconds(5));  // It has been taken, and waits.
    const auto queued = rig.migrator().submit(freed, {0, 1}, gpu(1), how);
    rig.free(freed);
    const auto next = rig.filled(2, gpu(0), 2, 17);
    ASSERT_EQ(next->begin(), begin) << "the cache gives out what was freed";
    operations.unlock();
    leader->wait();
    queued->wait();
    EXPECT_EQ(leader->error(), nullptr);
    expect_error(ErrorKind::cancelled, [&] {
      if (queued->error()) std::rethrow_exception(queued->error());
    });
    EXPECT_EQ(first->place(0), gpu(1));
    EXPECT_EQ(next->place(0), gpu(0));
    EXPECT_EQ(rig.wrong(*next, 17), 0u);
    freed.reset();
    rig.migrator().attached().detach(stream, Address{});
    operations.lock();
  });
}

TEST_P(FreedWhileQueued, MemoryIsNotCopiedAheadOfAHold) {
  step(GetParam(), [](const SimOptions& options) {
    MoveRig rig("test-2", {}, options);
    const auto one = rig.filled(2, gpu(0), 2, 1), two = rig.filled(2, gpu(0), 2, 33);
    auto freed = rig.filled(2, gpu(0), 2, 9);
    MigrateOptions how;
    how.scope = StopScope::hold;
    MutexLock operations(one->operations()), others(two->operations());
    const auto first = rig.migrator().submit(one, {0, 1}, gpu(1), how);
    const auto second = rig.migrator().submit(two, {0, 1}, gpu(1), how);
    sleep(rig, std::chrono::milliseconds(5));  // Both workers have taken one, and wait.
    const auto queued = rig.migrator().submit(freed, {0, 1}, gpu(1), how);
    rig.free(freed);
    const auto next = rig.filled(2, gpu(0), 2, 17);
    others.unlock();
    operations.unlock();
    for (const auto& task : {first, second, queued}) task->wait();
    EXPECT_EQ(first->error(), nullptr);
    EXPECT_EQ(second->error(), nullptr);
    expect_error(ErrorKind::cancelled, [&] {
      if (queued->error()) std::rethrow_exception(queued->error());
    });
    EXPECT_EQ(next->place(0), gpu(0));
    EXPECT_EQ(rig.wrong(*next, 17), 0u);
    freed.reset();
    operations.lock();
    others.lock();
  });
}

}  // namespace
}  // namespace vma
