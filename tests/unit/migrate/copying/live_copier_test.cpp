// Goal: a copier takes the next chunk once the work for the previous one has ended, even if nobody
// waited for that, and not before. Method: a stepped machine, so that work does not end by itself.
#include "migrate/copying/live_copier.hpp"

#include "support/drivers/intercept_driver.hpp"
#include "unit/migrate/moves/move_rig.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

namespace vma {
namespace {

class LiveCopierTest : public testing::Test {
 protected:
  /// `body` gets a copier on gpu(0), a source and a target.
  template <typename Body>
  void with_copier(Body&& body) {
    step(1, [&](const SimOptions& options) {
      MoveRig rig("test-2", {}, options);
      std::unique_ptr<LiveCopier> copier;
      {
        const MutexLock turn(rig.memory().chunks().slow_calls().turn());
        copier =
            std::make_unique<LiveCopier>(rig.memory(), DeviceId{0}, rig.context(0), LiveTuning{});
      }
      Chunk source = rig.chunk(gpu(0), 2);
      Chunk target = rig.chunk(gpu(1), 2);
      EXPECT_EQ(rig.calls(Call::load_kernels), 1) << "all kernels come together";
      rig.fill(source, seed_);
      body(rig, *copier, source, target);
      copier.reset();
      EXPECT_EQ(rig.wrong(target, seed_), 0u);
      rig.unclaim(source);
      rig.unclaim(target);
    });
  }

  const std::uint64_t seed_ = 40;
};

TEST_F(LiveCopierTest, TakesTheNextChunkWhenACopyThatNobodyWaitedForHasEnded) {
  with_copier([&](MoveRig& rig, LiveCopier& copier, const Chunk& source, const Chunk& target) {
    ASSERT_EQ(copier.take_bay(source.size_bytes()), 0u);
    copier.start_copy(0, source, target, 50);
    EXPECT_TRUE(copier.busy(0));
    expect_error(ErrorKind::driver_failure, [&] { copier.start_copy(0, source, target, 50); });
    rig.memory().contexts().await_work();
    copier.start_copy(0, source, target, 50);
    EXPECT_TRUE(copier.copied_by(0, never));
    EXPECT_FALSE(copier.busy(0));
  });
}

TEST_F(LiveCopierTest, CopiesAndSettlesChunksInSeveralBaysAtOnce) {
  with_copier([&](MoveRig& rig, LiveCopier& copier, const Chunk& source, const Chunk& target) {
    Chunk second = rig.chunk(gpu(0), 1), second_target = rig.chunk(gpu(1), 1);
    rig.fill(second, 9);
    const std::size_t one = copier.take_bay(source.size_bytes()).value();
    const std::size_t two = copier.take_bay(second.size_bytes()).value();
    ASSERT_NE(one, two);
    copier.start_copy(one, source, target, 50);
    copier.start_copy(two, second, second_target, 50);
    EXPECT_TRUE(copier.copied_by(two, never));
    EXPECT_TRUE(copier.copied_by(one, never));
    rig.fill(source, seed_ + 1);  // Each word differs now.
    const LiveCopier::Settling settling = copier.arm(std::vector<std::size_t>{one, two}, false);
    EXPECT_FALSE(copier.gone(settling));
    EXPECT_FALSE(copier.settled_by(one, rig.machine().clock().now()));
    copier.go(settling);
    EXPECT_TRUE(copier.settled_by(two, never));
    EXPECT_EQ(copier.dirty_tiles(one), source.size_bytes() / copier.tile_bytes());
    EXPECT_EQ(copier.dirty_tiles(two), 0u);
    EXPECT_EQ(rig.wrong(target, seed_ + 1), 0u);
    EXPECT_EQ(rig.wrong(second_target, 9), 0u);
    rig.fill(target, seed_);
    rig.unclaim(second);
    rig.unclaim(second_target);
  });
}

TEST_F(LiveCopierTest, DigestsAtTheTargetWhatACopyEngineBrought) {
  with_copier([&](MoveRig& rig, LiveCopier& copier, const Chunk& source, const Chunk& target) {
    std::unique_ptr<LiveCopier> there;
    {
      const MutexLock turn(rig.memory().chunks().slow_calls().turn());
      there = std::make_unique<LiveCopier>(rig.memory(), DeviceId{1}, rig.context(1), LiveTuning{});
    }
    const std::size_t bay = copier.take_bay(source.size_bytes()).value();
    const auto settle = [&] {
      copier.go(copier.arm(std::vector<std::size_t>{bay}, false));
      EXPECT_TRUE(copier.settled_by(bay, never));
      return copier.dirty_tiles(bay);
    };
    for (const std::uint64_t seed : {seed_ + 1, seed_}) {
      rig.fill(target, 7);
      rig.forget_calls();
      copier.start_copy_by_engine(bay, source, target, 100, *there);
      EXPECT_TRUE(copier.copied_by(bay, never));
      EXPECT_EQ(rig.calls(Call::copy), 1);
      EXPECT_EQ(settle(), 0u) << "nothing was written since";
      rig.fill(source, seed);
      EXPECT_EQ(settle(), source.size_bytes() / copier.tile_bytes());
      EXPECT_EQ(rig.wrong(target, seed), 0u);
    }
  });
}

TEST_F(LiveCopierTest, SettlesAnyNumberOfChunksWithFewChains) {
  with_copier([&](MoveRig& rig, LiveCopier& copier, const Chunk& source, const Chunk& target) {
    constexpr std::size_t most = 5;
    std::vector<Chunk> targets;
    std::vector<std::size_t> bays;
    for (std::size_t i = 0; i < most; ++i) {
      targets.push_back(rig.chunk(gpu(1), 2));
      bays.push_back(copier.take_bay(source.size_bytes()).value());
      copier.start_copy(bays.back(), source, targets.back(), 50);
    }
    for (const std::size_t bay : bays) EXPECT_TRUE(copier.copied_by(bay, never));
    rig.forget_calls();
    for (std::size_t count = 1; count <= most; ++count) {
      const std::uint64_t seed = seed_ + count;
      rig.fill(source, seed);
      copier.go(copier.arm(std::span(bays).first(count), count % 2 == 0));
      for (std::size_t i = 0; i < count; ++i) EXPECT_TRUE(copier.settled_by(bays[i], never));
      for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(rig.wrong(targets[i], seed), 0u);
        EXPECT_EQ(copier.dirty_tiles(bays[i]), source.size_bytes() / copier.tile_bytes());
      }
      for (std::size_t i = count; i < most; ++i) EXPECT_NE(rig.wrong(targets[i], seed), 0u);
    }
    EXPECT_EQ(rig.calls(Call::make_chain), 5) << "1, 4 and 8 in one way, 2 and 4 in the other";
    for (const Chunk& each : targets) rig.unclaim(each);
    rig.fill(source, seed_);
    copier.start_copy(bays[0], source, target, 50);
    EXPECT_TRUE(copier.copied_by(bays[0], never));
  });
}

TEST_F(LiveCopierTest, LaunchesNoChainAgainThatHasNotBeenLetGo) {
  with_copier([&](MoveRig& rig, LiveCopier& copier, const Chunk& source, const Chunk& target) {
    const Chunk other = rig.chunk(gpu(1), 2);
    std::vector<std::size_t> bays;
    for (const Chunk* const to : {&target, &other}) {
      bays.push_back(copier.take_bay(source.size_bytes()).value());
      copier.start_copy(bays.back(), source, *to, 50);
      EXPECT_TRUE(copier.copied_by(bays.back(), never));
    }
    rig.forget_calls();
    const auto arm = [&](std::size_t bay) { return copier.arm(std::span(&bays[bay], 1), false); };
    for (std::uint64_t round = 0; round <= 2; ++round) {
      rig.fill(source, seed_ + 2 - round);
      arm(0);
      copier.go(arm(1));
      for (const std::size_t bay : bays) EXPECT_TRUE(copier.settled_by(bay, never));
      EXPECT_EQ(rig.wrong(target, seed_ + 2 - round), 0u);
      EXPECT_EQ(rig.wrong(other, seed_ + 2 - round), 0u);
    }
    EXPECT_EQ(rig.calls(Call::make_chain), 2);
    rig.unclaim(other);
  });
}

/// Keeps the shapes of all launches.
class ShapeDriver final : public InterceptDriver {
 public:
  using InterceptDriver::InterceptDriver;
  void launch(BoundStream stream, KernelHandle kernel, LaunchShape shape,
              const KernelArguments& arguments) override {
    blocks.push_back(shape.grid.x);
    InterceptDriver::launch(stream, kernel, shape, arguments);
  }
  std::vector<unsigned> blocks;

 private:
  void around(Call, const std::function<void()>& body) override { body(); }
};

TEST(LiveCopierShare, DecidesHowManyBlocksCopy) {
  MoveRig rig;
  ShapeDriver driver(static_cast<Driver&>(rig.driver()));
  Memory memory(driver, rig.topology(), {});
  const std::uint64_t bytes = 64 * rig.page();
  const auto source = memory.alloc(bytes, gpu(0), {}), target = memory.alloc(bytes, gpu(1), {});
  {
    LiveTuning tuning;
    tuning.copy_blocks = 32;
    tuning.tiles_per_granule = 1;
    const MutexLock turn(memory.chunks().slow_calls().turn());
    LiveCopier copier(memory, DeviceId{0}, rig.context(0), tuning);
    const std::size_t bay = copier.take_bay(bytes).value();
    for (const auto& each : {source, target}) {
      memory.chunks().map_staging(each->chunk(0), ChunkStore::Turn::held);
    }
    for (const int share : {1, 12, 50, 100}) {
      copier.start_copy(bay, source->chunk(0), target->chunk(0), share);
      EXPECT_TRUE(copier.copied_by(bay, never));
    }
  }
  EXPECT_EQ(driver.blocks, (std::vector<unsigned>{1, 3, 16, 32}));
  memory.free(source->begin());
  memory.free(target->begin());
}

TEST_F(LiveCopierTest, WaitsForACopyWhoseEndNothingWillShow) {
  with_copier([&](MoveRig& rig, LiveCopier& copier, const Chunk& source, const Chunk& target) {
    const std::size_t bay = copier.take_bay(source.size_bytes()).value();
    rig.fail({Call::batch}, {0});
    EXPECT_THROW(copier.start_copy(bay, source, target, 50), Error);
    rig.fail_nothing();
    EXPECT_FALSE(source.busy());
    EXPECT_FALSE(target.busy());
    EXPECT_EQ(rig.wrong(target, seed_), 0u) << "it has ended";
    copier.start_copy(bay, source, target, 50);
    EXPECT_TRUE(copier.copied_by(bay, never));
  });
}

TEST_F(LiveCopierTest, LeavesChunksBusyIfItCannotWaitForTheirCopy) {
  with_copier([&](MoveRig& rig, LiveCopier& copier, const Chunk& source, const Chunk& target) {
    const std::size_t bay = copier.take_bay(source.size_bytes()).value();
    rig.fail({Call::batch, Call::wait_stream}, {0, 1});
    EXPECT_THROW(copier.start_copy(bay, source, target, 50), Error);
    rig.fail_nothing();
    EXPECT_TRUE(source.busy());
    EXPECT_TRUE(target.busy());
    copier.start_copy(bay, source, target, 50);  // Runs after the first one.
    EXPECT_TRUE(copier.copied_by(bay, never));
  });
}

TEST_F(LiveCopierTest, HasRoomForTwoChunksOfAnySizeOrForManySmallOnes) {
  with_copier([&](MoveRig& rig, LiveCopier& copier, const Chunk& source, const Chunk& target) {
    const std::uint64_t largest = largest_chunk_bytes(gpu(0), rig.page());
    const std::size_t first = copier.take_bay(largest).value();
    EXPECT_TRUE(copier.has_bay_for(largest));
    copier.take_bay(largest).value();
    std::size_t small = 0;
    while (copier.take_bay(rig.page())) ++small;
    EXPECT_LT(small, LiveCopier::bays - 2) << "the digests of two large ones take most of it";
    EXPECT_FALSE(copier.has_bay_for(rig.page()));
    copier.leave_bay(first);
    EXPECT_TRUE(copier.has_bay_for(largest)) << "they leave their room";
    while (copier.take_bay(rig.page())) ++small;
    EXPECT_EQ(small, LiveCopier::bays - 1);
    for (std::size_t bay = 0; bay < LiveCopier::bays; ++bay) copier.leave_bay(bay);
    ASSERT_EQ(copier.take_bay(source.size_bytes()), 0u);
    copier.start_copy(0, source, target, 50);
    copier.leave_bay(0);
    // Nothing has ended it, and copies would wait behind it.
    expect_error(ErrorKind::busy, [&] { copier.take_bay(rig.page()); });
    rig.memory().contexts().await_work();
    EXPECT_EQ(copier.take_bay(rig.page()), 0u);
  });
}

}  // namespace
}  // namespace vma
