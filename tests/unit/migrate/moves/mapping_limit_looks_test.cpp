// Goal: a call that runs out of memory checks once whether the limit of mappings is the cause,
// while no work is stopped, and says so. Method: the test replaces `mapping_limit_reached`.
#include "base/mapping_limit.hpp"
#include "support/drivers/intercept_driver.hpp"
#include "unit/migrate/moves/move_rig.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <optional>
#include <string>

namespace vma {
namespace {

constexpr const char* limit_text = "the test allows no more mappings";
std::function<void()> at_look;  // Called by each check of /proc.

/// Counts the checks; each one must find the turn for slow calls free.
class Looks {
 public:
  explicit Looks(Memory& memory) {
    at_look = [this, &memory] {
      ++count_;
      EXPECT_TRUE(memory.chunks().slow_calls().turn().is_free()) << "work may be stopped";
    };
  }
  ~Looks() { at_look = nullptr; }
  Looks(const Looks&) = delete;
  Looks& operator=(const Looks&) = delete;

  /// Runs `body`, which runs out of memory. Requires: nobody else has the turn for slow calls.
  Error expect_named(Memory& memory, const std::function<void()>& body) {
    memory.chunks().slow_calls().await_empty();
    count_ = 0;
    const Error error = expect_error(ErrorKind::out_of_memory, body);
    EXPECT_EQ(count_, 1);
    EXPECT_TRUE(says(error, limit_text)) << error.what();
    EXPECT_FALSE(says(error, "allocations at")) << error.what();
    return error;
  }

 private:
  int count_ = 0;
};

}  // namespace

// Replaces the function of the library.
std::optional<std::string> mapping_limit_reached() {
  if (at_look) at_look();
  return limit_text;
}

namespace {

TEST(MappingLimitLooks, IsAskedForOnceByAnAllocation) {
  MoveRig rig;
  const auto cached = rig.alloc(6, gpu(1), 2);
  rig.free(cached);
  Looks looks(rig.memory());
  rig.fail({Call::create}, {0, 1, 2});
  looks.expect_named(rig.memory(), [&] { rig.alloc(8, gpu(1), 8); });
  EXPECT_EQ(rig.driver().fired(), 2) << "with the cache, and once it was given up";
}

TEST(MappingLimitLooks, IsAskedForOnceByAReservation) {
  MoveRig rig;
  Looks looks(rig.memory());
  rig.fail({Call::create}, {0, 1, 2});
  looks.expect_named(rig.memory(),
                     [&] { rig.memory().chunks().reserve(gpu(1), 8 * rig.page(), 0); });
}

TEST(MappingLimitLooks, IsAskedForOnceByAMoveAfterItsHold) {
  MoveRig rig;
  const auto allocation = rig.filled(8, gpu(0), 2, 3);
  Looks looks(rig.memory());
  rig.fail({Call::create}, {2, 3});  // The third target, while work is held.
  const Error error = looks.expect_named(rig.memory(), [&] { rig.move(*allocation, gpu(1)); });
  ASSERT_NE(error.report(), nullptr);
  EXPECT_EQ(error.report()->chunks_moved, 2);
  EXPECT_NE(error.native(), 0);
}

TEST(MappingLimitLooks, IsAskedForOnceByAMoveInTheBackground) {
  MoveRig rig;
  const BoundStream stream = rig.new_stream(0);
  const auto allocation = rig.filled(8, gpu(0), 2, 3);
  rig.migrator().attached().attach(stream, allocation->begin());
  Looks looks(rig.memory());
  MigrateOptions options;
  options.mode = Mode::stopped;
  options.max_stall = std::chrono::microseconds(1);  // Each chunk gets its target when it moves.
  rig.fail({Call::create}, {2, 3});
  const Error error = looks.expect_named(rig.memory(), [&] {
    const auto task = rig.migrator().submit(allocation, {0, 4}, gpu(1), options);
    task->wait();
    std::rethrow_exception(task->error());
  });
  ASSERT_NE(error.report(), nullptr);
  EXPECT_EQ(error.report()->chunks_moved, 2);
  rig.migrator().attached().detach(stream, allocation->begin());
}

TEST(MappingLimitLooks, IsAskedForOnceByWhatBringsDroppedMemoryBack) {
  MoveRig rig;
  const auto allocation = rig.filled(8, gpu(0), 2, 3);
  const MoveClaim claim = MoveClaim::take(allocation);
  rig.migrator().drop(*allocation, {0, 4}, {});
  Looks looks(rig.memory());
  rig.fail({Call::create}, {0, 1, 2});
  looks.expect_named(rig.memory(), [&] { rig.migrator().restore(*allocation, {0, 4}, gpu(1)); });
}

/// As if `new` found no mapping.
class NoHostMemoryDriver : public InterceptDriver {
 public:
  using InterceptDriver::InterceptDriver;
  ChunkHandle create(Place at, std::uint64_t size_bytes) override {
    if (no_memory) throw std::bad_alloc();
    return InterceptDriver::create(at, size_bytes);
  }
  bool no_memory = false;

 private:
  void around(Call, const std::function<void()>& body) override { body(); }
};

TEST(MappingLimitLooks, GivesNothingOfTheCacheUp) {
  MoveRig rig;
  NoHostMemoryDriver driver(static_cast<Driver&>(rig.driver()));
  Memory memory(driver, rig.topology(), MemoryLimits{});
  memory.free(memory.alloc(6 * rig.page(), gpu(1), {})->begin());
  const std::uint64_t cached_bytes = memory.chunks().cache().cached_bytes(gpu(1));
  EXPECT_GT(cached_bytes, 0u);
  Looks looks(memory);
  driver.no_memory = true;
  looks.expect_named(memory, [&] { memory.alloc(64 * rig.page(), gpu(1), {}); });
  EXPECT_EQ(memory.chunks().cache().cached_bytes(gpu(1)), cached_bytes);
}

}  // namespace
}  // namespace vma
