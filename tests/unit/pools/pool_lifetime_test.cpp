// Goal: the lives of pools: default, current and destroyed ones, and pools that outlive the
// runtime.
#include "unit/pools/pool_rig.hpp"

#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

namespace vma {
namespace {

TEST(PoolLifetime, ADefaultPoolCannotBeDestroyed) {
  PoolRig rig;
  Pool pool = rig.runtime().default_pool(gpu(0));
  EXPECT_EQ(kind_of_error([&] { pool.destroy(); }), ErrorKind::invalid_argument);
  EXPECT_EQ(pool, rig.runtime().default_pool(gpu(0)));
  EXPECT_NE(pool, rig.runtime().default_pool(gpu(1)));
  pool.deallocate(pool.allocate(1, rig.stream(0)), rig.stream(0));
}

TEST(PoolLifetime, DestroyingTheCurrentPoolResetsIt) {
  PoolRig rig;
  Pool pool = rig.runtime().make_pool(gpu(0));
  rig.runtime().set_current_pool(pool);
  pool.destroy();
  EXPECT_EQ(rig.runtime().current_pool(gpu(0)), rig.runtime().default_pool(gpu(0)));
  EXPECT_EQ(kind_of_error([&] { rig.runtime().set_current_pool(pool); }),
            ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of_error([&] { pool.destroy(); }), ErrorKind::invalid_argument);
}

TEST(PoolLifetime, ADestroyedPoolLivesUntilItsLastBlockIsFree) {
  PoolRig rig;
  const Stream stream = rig.new_stream();
  Pool pool = rig.runtime().make_pool(gpu(0));
  auto* words = static_cast<std::uint64_t*>(pool.allocate(8192, stream));
  auto* more = pool.allocate(1 << 20, stream);
  pool.destroy();
  EXPECT_EQ(kind_of_error([&] { pool.allocate(1, stream); }), ErrorKind::invalid_argument);
  rig.fill_by(0, words, 1024, 3);
  EXPECT_EQ(rig.wrong_for(0, words, 1024, 3), 0u);
  pool.deallocate(more, stream);
  rig.stop(stream);
  rig.runtime().free_async(words, stream);
  EXPECT_GT(pool.stats().reserved_bytes, 0u);
  rig.let_go(stream);
  EXPECT_TRUE(comes_true([&] { return pool.stats().reserved_bytes == 0; }));
}

TEST(PoolLifetime, DestroyingWaitsForFreesOfStreamsThatCannotBeAsked) {
  PoolRig rig;
  const Stream foreign = PoolRig::as_stream(rig.foreign_stream());
  Pool pool = rig.runtime().make_pool(gpu(0));
  pool.deallocate(pool.allocate(1 << 20, foreign), foreign);
  pool.destroy();
  EXPECT_EQ(pool.stats().reserved_bytes, 0u);
}

TEST(PoolLifetime, APoolOfAClosedRuntimeRefuses) {
  Pool pool;
  {
    RuntimeRig rig;
    pool = rig.runtime().make_pool(gpu(0));
    pool.allocate(1000, rig.stream(0));  // Ends with the runtime.
    EXPECT_EQ(kind_of_error([&] { rig.runtime().make_pool(gpu(9)); }), ErrorKind::invalid_argument);
    rig.runtime().shutdown();
    EXPECT_EQ(kind_of_error([&] { pool.stats(); }), ErrorKind::driver_gone);
  }
  EXPECT_EQ(kind_of_error([&] { pool.stats(); }), ErrorKind::driver_gone);
}

TEST(PoolLifetime, StreamsThatComeAndGoLeaveNothing) {
  PoolRig rig;
  const Pool pool = rig.runtime().make_pool(gpu(0));
  for (int i = 0; i < 200; ++i) {
    const Stream stream = rig.new_stream();
    pool.deallocate(pool.allocate(1 << 20, stream), stream);
    rig.end(stream);
  }
  EXPECT_LE(pool.stats().reserved_bytes, 64u << 20);
}

/// A segment begins where its first block does, and holds the blocks of others.
TEST(PoolLifetime, BlocksAreNotExported) {
  RuntimeOptions options;
  options.exportable = Exportable{.descriptor = true};
  PoolRig rig("test-2", options);
  const Pool pool = rig.runtime().make_pool(gpu(0));
  void* const first = pool.allocate(512, rig.stream(0));
  EXPECT_EQ(kind_of_error([&] { rig.runtime().export_allocation(first); }), ErrorKind::unsupported);
  pool.deallocate(first, rig.stream(0));
}

}  // namespace
}  // namespace vma
