// Goal: whatever driver call fails, a pool's calls throw a typed error or succeed, and nothing is
// lost. Method: one life of a pool on two streams and in a capture, in which each call of the
// driver fails in turn.
#include "pools/pools.hpp"
#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace vma {
namespace {

const std::set<Call> pool_calls{
    Call::stream_now,   Call::stream_context, Call::create_event,  Call::record,
    Call::is_capturing, Call::query_event,    Call::destroy_event, Call::stream_wait_event,
    Call::at_graph_end, Call::create,         Call::map,           Call::grant,
    Call::reserve,      Call::unmap,          Call::release,       Call::unreserve};

class PoolLife {
 public:
  explicit PoolLife(MemoryRig& rig)
      : rig_(rig), pools_(rig.driver(), rig.memory(), [](StreamHandle) { return true; }) {}

  /// Returns how many calls have failed.
  int play() {
    const BoundStream from = rig_.new_stream(0), to = rig_.new_stream(0);
    PoolOptions options;
    options.max_bytes = 3 << 20;
    std::shared_ptr<BlockPool> pool;
    attempt([&] { pool = pools_.make(gpu(0), options); });
    pool_ = pool.get();
    for (int round = 0; round < 2; ++round) {
      allocate(from, 1 << 20);
      allocate(from, 1 << 20);
      allocate(from, 700);
      free_all(from);
      allocate(to, 2 << 20);
      attempt([&] { pool_->order(from.handle, to.handle); });
      free_all(to);
      allocate(from, 500'000);
      free_all(from);
      attempt([&] { pool_->trim(0); });
    }
    capture(from);
    const int fired = rig_.driver().fired();
    rig_.fail_nothing();
    free_all(from);
    pool_->complete(pool_->past());
    pool_->check_invariants();
    EXPECT_EQ(pool_->stats().used_bytes, 0u);
    EXPECT_EQ(pool_->stats().reserved_bytes, 0u);
    pools_.destroy(pool);
    return fired;
  }

 private:
  void capture(BoundStream stream) {
    rig_.machine().begin_capture(stream, CaptureMode::global);
    allocate(stream, 4000);
    allocate(stream, 4000);
    attempt([&] { free_one(stream); });
    try {
      rig_.machine().destroy_graph(rig_.machine().end_capture(stream));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::driver_failure) << error.what();
    }
  }

  void allocate(BoundStream stream, std::uint64_t bytes) {
    attempt([&] { blocks_.push_back(pool_->allocate(bytes, stream.handle, 256)); });
  }
  void free_one(BoundStream stream) {
    if (blocks_.empty()) return;
    Block* const block = pools_.block_at(blocks_.back());
    ASSERT_NE(block, nullptr);
    pool_->deallocate(*block, stream.handle);
    blocks_.pop_back();
  }
  /// What fails once succeeds when it is tried again.
  void free_all(BoundStream stream) {
    while (!blocks_.empty()) attempt([&] { free_one(stream); });
  }
  static void attempt(const std::function<void()>& body) {
    try {
      body();
    } catch (const Error& error) {
      EXPECT_FALSE(error.call().empty());
    }
  }

  MemoryRig& rig_;
  Pools pools_;
  BlockPool* pool_ = nullptr;
  std::vector<Address> blocks_;
};

TEST(PoolFaults, AnySingleFailureLosesNothing) {
  int number = 0;
  for (int fired = 1; fired > 0; ++number) {
    SCOPED_TRACE(testing::Message() << "driver call " << number << " fails");
    MemoryRig rig;
    PoolLife life(rig);
    rig.fail(pool_calls, {number});
    fired = life.play();
    rig.memory().check_invariants();
  }
  EXPECT_GT(number, 60);
}

TEST(PoolFaults, FailuresInARowLoseNothing) {
  int number = 0;
  for (int fired = 1; fired > 0; number += 3) {
    SCOPED_TRACE(testing::Message() << "driver calls from " << number << " fail");
    MemoryRig rig;
    PoolLife life(rig);
    rig.fail(pool_calls, {number, number + 1, number + 2, number + 3, number + 4});
    fired = life.play();
    rig.memory().check_invariants();
  }
}

}  // namespace
}  // namespace vma
