// Goal: whichever allocation of host memory fails in a call of a pool, the call throws or succeeds,
// and no block is lost or counted twice. Method: replaces operator new, which fails the n-th
// allocation of the calls under test, outside of the simulated machine, for every n.
#include "pools/pools.hpp"
#include "support/failing_memory.hpp"
#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <utility>
#include <vector>

namespace vma {
namespace {

thread_local long left = -1;  // Allocations that still succeed; below 0, all do.

bool none_is_left() {
  return left >= 0 && left-- == 0;
}

/// A life of a pool in which one allocation of host memory fails.
class PoolLifeWithoutMemory {
 public:
  explicit PoolLifeWithoutMemory(long number) : number_(number) {
    allocation_fails = none_is_left;
    PoolOptions options;
    options.max_bytes = 3 << 20;
    pool_ = pools_.make(gpu(0), options);
  }

  /// Returns whether an allocation has failed.
  bool play() {
    for (int round = 0; round < 2; ++round) {
      allocate(from_, 1 << 20);
      allocate(from_, 1 << 20);
      allocate(from_, 700);
      rig_.stop(from_);
      free_all(from_);
      allocate(to_, 2 << 20);  // Waits for the frees of `from_`.
      attempt([&] { pool_->order(to_.handle, from_.handle); });
      allocate(to_, 300'000);
      free_all(to_);
      rig_.let_all_go();
      allocate(from_, 500'000);
      free_all(from_);
      attempt([&] { pool_->trim(0); });
    }
    capture();
    pool_->complete(drained());
    pool_->trim(0);
    pool_->check_invariants();
    EXPECT_EQ(pool_->stats().used_bytes, 0u);
    EXPECT_EQ(pool_->stats().reserved_bytes, 0u);
    pools_.destroy(pool_);
    memory_.check_invariants();
    return failed_;
  }

 private:
  void capture() {
    rig_.machine().begin_capture(to_, CaptureMode::relaxed);
    allocate(to_, 4000);
    allocate(to_, 4000);
    if (!blocks_.empty()) attempt([&] { free_one(to_); });
    rig_.machine().destroy_graph(rig_.machine().end_capture(to_));
    free_all(to_);
  }
  void allocate(BoundStream stream, std::uint64_t bytes) {
    blocks_.reserve(blocks_.size() + 1);
    attempt([&] { blocks_.push_back(pool_->allocate(bytes, stream.handle, 256)); });
  }
  void free_one(BoundStream stream) {
    Pools::deallocate(*pools_.block_at(blocks_.back()), stream.handle);
    blocks_.pop_back();
  }
  /// What fails once succeeds when it is tried again.
  void free_all(BoundStream stream) {
    while (!blocks_.empty()) attempt([&] { free_one(stream); });
  }
  BlockPool::Past drained() {
    BlockPool::Past past = pool_->past();
    memory_.contexts().await_work();
    return past;
  }
  void attempt(const std::function<void()>& body) {
    if (!failed_) left = number_;
    try {
      body();
    } catch (const std::bad_alloc&) {
    } catch (const Error& error) {
      EXPECT_TRUE(error.kind() == ErrorKind::out_of_memory) << error.what();
    }
    if (!failed_) {
      failed_ = left < 0;
      number_ = left;
    }
    left = -1;
  }

  MemoryRig rig_;
  SparedDriver driver_{rig_.driver()};
  Memory memory_{driver_, rig_.topology(), MemoryLimits{}};
  Pools pools_{driver_, memory_, [](StreamHandle) { return true; }};
  const BoundStream from_ = rig_.new_stream(0), to_ = rig_.new_stream(0);
  Pools::PoolPointer pool_;
  std::vector<Address> blocks_;
  long number_;
  bool failed_ = false;
};

TEST(PoolsWithoutMemory, LoseNothing) {
  long number = 0;
  for (bool failed = true; failed; ++number) {
    SCOPED_TRACE(testing::Message() << "allocation " << number << " fails");
    PoolLifeWithoutMemory life(number);
    failed = life.play();
  }
  EXPECT_GT(number, 50);
}

}  // namespace
}  // namespace vma
