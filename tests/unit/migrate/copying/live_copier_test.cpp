// Goal: a copier takes the next chunk once the work for the previous one has ended, even if nobody
// waited for that, and not before. Method: a stepped machine, so that work does not end by itself.
#include "migrate/copying/live_copier.hpp"

#include "unit/migrate/moves/move_rig.hpp"

#include <gtest/gtest.h>

#include <memory>

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
    copier.start_copy(0, source, target);
    EXPECT_TRUE(copier.busy(0));
    expect_error(ErrorKind::driver_failure, [&] { copier.start_copy(0, source, target); });
    rig.memory().contexts().drain();
    copier.start_copy(0, source, target);
    EXPECT_TRUE(copier.copied_by(0, never));
    EXPECT_FALSE(copier.busy(0));
  });
}

}  // namespace
}  // namespace vma
