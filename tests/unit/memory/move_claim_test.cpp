// Goal: only one thread at a time moves or frees an allocation; an error names what keeps an
// allocation in place; a thread that still holds a freed allocation never sees its successor at the
// same address; an asynchronous free waits for the work of its stream.
#include "memory/move_claim.hpp"

#include "unit/memory/memory_rig.hpp"

#include "base/executor.hpp"
#include "support/drivers/intercept_driver.hpp"
#include "driver/native_codes.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <utility>
#include <vector>

namespace vma {
namespace {

TEST(MoveClaim, IsHadByOneAtATime) {
  MemoryRig rig;
  const auto allocation = rig.alloc(1, gpu(0));
  MoveClaim first = MoveClaim::take(allocation);
  EXPECT_TRUE(first);
  EXPECT_FALSE(MoveClaim::try_take(allocation));
  MoveClaim moved = std::move(first);
  EXPECT_FALSE(first);  // NOLINT: what is left of it is the claim.
  EXPECT_FALSE(MoveClaim::try_take(allocation)) << "it has only moved";
  moved = MoveClaim();
  EXPECT_TRUE(MoveClaim::try_take(allocation));
  EXPECT_TRUE(MoveClaim::try_take(allocation)) << "the last one has ended";
}

TEST(MoveClaim, IsWaitedFor) {
  MemoryRig rig;
  const auto allocation = rig.alloc(1, gpu(0));
  std::atomic<int> inside{0}, most{0};
  ThreadedExecutor executor;
  std::vector<std::unique_ptr<Task>> tasks;
  for (int i = 0; i < 4; ++i) {
    tasks.push_back(executor.spawn("migrator", [&] {
      for (int round = 0; round < 200; ++round) {
        const MoveClaim claim = MoveClaim::take(allocation);
        most = std::max(most.load(), ++inside);
        --inside;
      }
    }));
  }
  for (const auto& task : tasks) task->join();
  EXPECT_EQ(most, 1);
}

TEST(MoveClaim, MakesAFreeWaitForTheMove) {
  step(1, [](const SimOptions& options) {
    MemoryRig rig("test-2", {}, options);
    const auto allocation = rig.alloc(1, gpu(0));
    MoveClaim claim = MoveClaim::take(allocation);
    const auto task = rig.machine().executor().spawn("freer", [&] { rig.free(allocation); });
    sleep(rig, std::chrono::seconds(1));
    EXPECT_TRUE(allocation->being_freed);
    EXPECT_EQ(rig.memory().registry().size(), 1u);
    EXPECT_EQ(rig.cached(gpu(0)), 0u);
    {
      const MutexLock lock(allocation->operations());  // As the migrator does for each chunk.
    }
    claim = MoveClaim();
    task->join();
    EXPECT_EQ(rig.cached(gpu(0)), rig.page());
  });
}

TEST(MoveClaim, LetsAFreeThatFailedGoOn) {
  MemoryRig rig;
  const auto allocation = rig.alloc(1, gpu(0));
  rig.fail({Call::synchronize_context}, {0});
  expect_error(ErrorKind::driver_failure, [&] { rig.free(allocation); });
  EXPECT_TRUE(MoveClaim::try_take(allocation)) << "the free has given it back";
}

TEST(MoveClaim, MakesAnAsynchronousFreeWaitForTheMove) {
  MemoryRig rig;
  const auto allocation = rig.alloc(2, gpu(0), 2);
  const BoundStream stream = rig.new_stream(0);
  MoveClaim claim = MoveClaim::take(allocation);
  rig.memory().free_async(allocation->begin(), stream);
  rig.machine().wait_stream(stream, never);
  {
    const MutexLock turn(rig.memory().chunks().slow_calls().turn());
    rig.memory().chunks().slow_calls().run_here();  // Processes what is waiting.
  }
  EXPECT_EQ(rig.cached(gpu(0)), 0u);
  claim = MoveClaim();
  EXPECT_TRUE(comes_true([&] { return rig.cached(gpu(0)) == 2 * rig.page(); }));
  EXPECT_TRUE(comes_true([&] { return bool(MoveClaim::try_take(allocation)); }))
      << "who waited for it finds it freed, and does not wait for ever";
  EXPECT_TRUE(allocation->being_freed);
}

// --- Events of free_async

TEST(FreeAsync, KeepsMemoryWhileItIsNotKnownWhetherWorkRuns) {
  step(1, [](const SimOptions& options) {
    MemoryRig rig("test-2", {}, options);
    const auto allocation = rig.alloc(1, gpu(0));
    const BoundStream stream = rig.new_stream(0);
    rig.launch_spin(stream, std::chrono::seconds(2));
    rig.fail({Call::query_event}, {0, 1});
    rig.memory().free_async(allocation->begin(), stream);
    sleep(rig, std::chrono::seconds(1));
    EXPECT_EQ(rig.driver().fired(), 2);
    EXPECT_EQ(rig.cached(gpu(0)), 0u) << "the kernel may still use it";
    sleep(rig, std::chrono::seconds(2));
    EXPECT_EQ(rig.cached(gpu(0)), rig.page());
  });
}

/// Asking for an event fails until the event is recorded a second time.
class LostEventDriver : public InterceptDriver {
 public:
  LostEventDriver(Driver& inner, int code) : InterceptDriver(inner), code_(code) {}
  void record(EventHandle event, BoundStream stream) override {
    InterceptDriver::record(event, stream);
    ++records;
  }
  bool query_event(EventHandle event) override {
    if (records == 1) throw driver_error(code_, "cuEventQuery");
    return InterceptDriver::query_event(event);
  }
  std::atomic<int> records{0};

 private:
  void around(Call, const std::function<void()>& body) override { body(); }
  const int code_;
};

TEST(FreeAsync, GivesMemoryBackWhoseContextRunsNothingAnyMore) {
  for (const int code : {native_illegal_address, native_context_is_destroyed,
                         native_invalid_context, native_invalid_handle}) {
    step(1, [&](const SimOptions& options) {
      MemoryRig rig("test-2", {}, options);
      LostEventDriver driver(rig.driver(), code);
      Memory memory(driver, rig.topology(), MemoryLimits{});
      const auto allocation = memory.alloc(rig.page(), gpu(0), {});
      memory.free_async(allocation->begin(), rig.new_stream(0));
      sleep(rig, std::chrono::seconds(1));
      EXPECT_EQ(memory.chunks().cache().cached_bytes(gpu(0)), rig.page()) << code;
    });
  }
}

TEST(FreeAsync, WaitsForTheStreamWhereACaptureHasTakenTheEvent) {
  step(1, [](const SimOptions& options) {
    MemoryRig rig("test-2", {}, options);
    LostEventDriver driver(rig.driver(), native_captured_event);
    Memory memory(driver, rig.topology(), MemoryLimits{});
    const BoundStream stream = rig.new_stream(0);
    const auto allocation = memory.alloc(rig.page(), gpu(0), {});
    rig.launch_spin(stream, std::chrono::seconds(2));
    memory.free_async(allocation->begin(), stream);
    sleep(rig, std::chrono::seconds(1));
    EXPECT_EQ(driver.records, 2);
    EXPECT_EQ(memory.chunks().cache().cached_bytes(gpu(0)), 0u) << "the kernel may still use it";
    sleep(rig, std::chrono::seconds(2));
    EXPECT_EQ(memory.chunks().cache().cached_bytes(gpu(0)), rig.page());
  });
}

TEST(Operations, MakeAFreeWait) {
  step(1, [](const SimOptions& options) {
    MemoryRig rig("test-2", {}, options);
    const auto allocation = rig.alloc(1, gpu(0));
    const BoundStream stream = rig.new_stream(0);
    const auto other = rig.alloc(1, gpu(0));
    std::unique_ptr<Task> task;
    {
      const MutexLock lock(allocation->operations());
      const MutexLock others(other->operations());
      task = rig.machine().executor().spawn("freer", [&] { rig.free(allocation); });
      rig.memory().free_async(other->begin(), stream);
      sleep(rig, std::chrono::seconds(1));
      EXPECT_EQ(rig.memory().registry().size(), 1u) << "the asynchronous one is forgotten at once";
      EXPECT_EQ(rig.cached(gpu(0)), 0u);
    }
    task->join();
    sleep(rig, std::chrono::seconds(1));
    EXPECT_EQ(rig.cached(gpu(0)), 2 * rig.page());
  });
}

TEST(Free, IsRefusedWhileAnotherOneWaits) {
  step(1, [](const SimOptions& options) {
    MemoryRig rig("test-2", {}, options);
    const auto allocation = rig.alloc(1, gpu(0));
    rig.launch_spin(rig.new_stream(0), std::chrono::seconds(60));
    const auto task = rig.machine().executor().spawn("freer", [&] { rig.free(allocation); });
    sleep(rig, std::chrono::seconds(1));
    const Error error = expect_error(ErrorKind::unknown_pointer, [&] { rig.free(allocation); });
    EXPECT_TRUE(says(error, "is already being freed")) << error.what();
    task->join();
  });
}

TEST(Pins, SayWhatKeepsAnAllocationWhereItIs) {
  MemoryRig rig;
  const auto allocation = rig.alloc(1, gpu(0));
  EXPECT_TRUE(allocation->may_move());
  allocation->pin();
  allocation->pin();
  EXPECT_EQ(allocation->why_pinned(), "is pinned");
  allocation->unpin();
  EXPECT_FALSE(allocation->may_move());
  expect_error(ErrorKind::pinned, [&] { rig.free(allocation); });
  allocation->unpin();
  EXPECT_TRUE(allocation->may_move());
  ++allocation->views;
  EXPECT_EQ(allocation->why_pinned(), "has a HostView");
  const Error error = expect_error(ErrorKind::pinned, [&] { rig.free(allocation); });
  EXPECT_TRUE(says(error, "HostView")) << error.what();
  --allocation->views;
  allocation->movable = false;
  EXPECT_EQ(allocation->why_pinned(), "was allocated with movable = false");
  allocation->movable = true;
  allocation->exported = true;
  EXPECT_EQ(allocation->why_pinned(),
            "is exported, and no hook follows its moves; register one with vma::on_move");
  const std::uint64_t hooks = allocation->hooks().add({});
  EXPECT_TRUE(allocation->may_move()) << "hooks let it go";
  allocation->hooks().remove(hooks);
  EXPECT_FALSE(allocation->may_move());
  rig.free(allocation);  // An exported handle does not prevent the free.
}

TEST(FreedAllocation, IsNeverTheNextOneAtItsAddress) {
  MemoryRig rig;
  const auto first = rig.alloc(4, gpu(0), 2);
  first->pin();
  first->unpin();
  first->exported = true;
  rig.free(first);
  rig.forget_calls();
  const auto second = rig.alloc(4, gpu(0), 2);
  ASSERT_EQ(second->begin(), first->begin());
  EXPECT_TRUE(rig.trace().empty());
  EXPECT_NE(second, first);
  EXPECT_TRUE(first->being_freed) << "who looked it up before the free learns of it";
  EXPECT_TRUE(first->extents().empty());
  EXPECT_FALSE(first->reusable());
  EXPECT_FALSE(second->being_freed);
  EXPECT_FALSE(second->exported);
  rig.expect_shown(*second);
  EXPECT_FALSE(first->take_out(0)) << "the memory is the other's";
  rig.expect_shown(*second);
}

}  // namespace
}  // namespace vma
