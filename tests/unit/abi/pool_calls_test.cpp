// Goal: the C calls of pools behave as the C++ ones do, and refuse null pointers and unknown
// values.
#include "unit/abi/abi_rig.hpp"

#include "abi/boundary.hpp"

namespace vma {
namespace {

class PoolCalls : public AbiTest {
 protected:
  vmart_pool_stats stats(const vmart_pool* pool) {
    vmart_pool_stats stats{};
    stats.size_bytes = sizeof stats;
    EXPECT_EQ(vmart_pool_stats_get(pool, &stats), VMART_OK) << vmart_last_error();
    return stats;
  }
};

TEST_F(PoolCalls, APoolLivesFromCreateToDestroy) {
  vmart_pool* pool = nullptr;
  vmart_pool_options options{};
  options.size_bytes = sizeof options;
  options.release_threshold = SIZE_MAX;
  ASSERT_EQ(vmart_pool_create(c_gpu(0), "mine", &options, &pool), VMART_OK) << vmart_last_error();
  void* block = nullptr;
  ASSERT_EQ(vmart_pool_allocate(pool, 5000, 0, stream(0), &block), VMART_OK);
  EXPECT_GE(stats(pool).used_bytes, 5000u);
  EXPECT_GE(stats(pool).reserved_bytes, stats(pool).used_bytes);
  EXPECT_EQ(vmart_pool_migrate(pool, c_host(0), nullptr), VMART_OK) << vmart_last_error();
  EXPECT_EQ(home_of(block), "host(0)");
  EXPECT_EQ(vmart_pool_order(pool, stream(1), stream(0)), VMART_OK);
  EXPECT_EQ(vmart_pool_deallocate(pool, block, stream(0)), VMART_OK);
  EXPECT_EQ(vmart_pool_deallocate(pool, block, stream(0)), VMART_UNKNOWN_POINTER);
  EXPECT_EQ(vmart_pool_synchronize(pool), VMART_OK);
  EXPECT_GT(stats(pool).reserved_bytes, 0u);
  EXPECT_EQ(vmart_pool_set_release_threshold(pool, 0), VMART_OK);
  size_t given = 0;
  EXPECT_EQ(vmart_pool_trim(pool, 0, &given), VMART_OK);
  EXPECT_GT(given, 0u);
  EXPECT_EQ(vmart_pool_reset_high_marks(pool), VMART_OK);
  EXPECT_EQ(stats(pool).reserved_high_bytes, 0u);
  EXPECT_EQ(vmart_pool_destroy(pool), VMART_OK);
  EXPECT_EQ(vmart_pool_allocate(pool, 1, 0, stream(0), &block), VMART_INVALID_ARGUMENT);
  vmart_pool_release(pool);
}

TEST_F(PoolCalls, APoolTakesOtherPoliciesOfReuse) {
  vmart_pool* pool = nullptr;
  ASSERT_EQ(vmart_pool_create(c_gpu(0), nullptr, nullptr, &pool), VMART_OK);
  vmart_pool_options options{};
  options.size_bytes = sizeof options;
  options.no_opportunistic = 1;
  options.release_threshold = 1;  // Ignored.
  EXPECT_EQ(vmart_pool_set_reuse(pool, &options), VMART_OK) << vmart_last_error();
  EXPECT_FALSE(pool->pool.options().reuse.opportunistic);
  EXPECT_TRUE(pool->pool.options().reuse.internal_dependencies);
  EXPECT_EQ(pool->pool.options().release_threshold, 0u);
  EXPECT_EQ(vmart_pool_set_reuse(pool, nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_pool_destroy(pool), VMART_OK);
  vmart_pool_release(pool);
}

TEST_F(PoolCalls, WhatWasFreedOnAForgottenStreamComesBack) {
  vmart_pool* pool = nullptr;
  vmart_pool_options options{};
  options.size_bytes = sizeof options;
  options.streams_last = 1;
  ASSERT_EQ(vmart_pool_create(c_gpu(0), nullptr, &options, &pool), VMART_OK);
  const ContextHandle context = driver().retain_primary(DeviceId{0});
  const BoundStream gone = driver().create_stream(context, StreamKind::non_blocking);
  const auto stream = reinterpret_cast<vmart_stream>(static_cast<std::uintptr_t>(gone.handle));
  void* block = nullptr;
  ASSERT_EQ(vmart_pool_allocate(pool, 100, 0, stream, &block), VMART_OK) << vmart_last_error();
  EXPECT_EQ(vmart_pool_deallocate(pool, block, stream), VMART_OK);
  EXPECT_EQ(vmart_pool_forget_stream(stream), VMART_OK) << vmart_last_error();
  driver().destroy_stream(gone);
  driver().synchronize_context(context);  // Trimming does not wait for the event behind the free.
  size_t given = 0;
  EXPECT_EQ(vmart_pool_trim(pool, 0, &given), VMART_OK);
  EXPECT_GT(given, 0u);
  const auto of_thread = reinterpret_cast<vmart_stream>(2);
  EXPECT_EQ(vmart_pool_forget_stream(of_thread), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_pool_destroy(pool), VMART_OK);
  vmart_pool_release(pool);
  driver().release_primary(DeviceId{0});
}

TEST_F(PoolCalls, TheCurrentPoolIsUsedByAllocAsync) {
  vmart_pool *pool = nullptr, *standard = nullptr, *current = nullptr;
  ASSERT_EQ(vmart_pool_create(c_gpu(0), nullptr, nullptr, &pool), VMART_OK);
  ASSERT_EQ(vmart_pool_default(c_gpu(0), &standard), VMART_OK);
  ASSERT_EQ(vmart_pool_set_current(pool), VMART_OK);
  ASSERT_EQ(vmart_pool_current(c_gpu(0), &current), VMART_OK);
  void* block = nullptr;
  ASSERT_EQ(vmart_alloc_async(100, stream(0), &block), VMART_OK);
  EXPECT_GT(stats(current).used_bytes, 0u);
  EXPECT_EQ(stats(standard).used_bytes, 0u);
  EXPECT_EQ(vmart_free_async(block, stream(0)), VMART_OK);
  EXPECT_EQ(vmart_pool_synchronize(pool), VMART_OK);  // Otherwise the free may outlive the pool.
  EXPECT_EQ(vmart_pool_destroy(standard), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_pool_destroy(pool), VMART_OK);
  for (vmart_pool* handle : {pool, standard, current}) vmart_pool_release(handle);
}

TEST_F(PoolCalls, InvalidArgumentsAreRefused) {
  vmart_pool* pool = nullptr;
  void* block = nullptr;
  vmart_pool_options options{};
  EXPECT_EQ(vmart_pool_create(c_gpu(0), nullptr, &options, &pool), VMART_INVALID_ARGUMENT);
  options.size_bytes = sizeof options;
  options.reserved = 1;
  EXPECT_EQ(vmart_pool_create(c_gpu(0), nullptr, &options, &pool), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_pool_create(c_gpu(7), nullptr, nullptr, &pool), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_pool_create(c_gpu(0), nullptr, nullptr, nullptr), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_pool_allocate(nullptr, 1, 0, stream(0), &block), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_alloc_async(1, stream(0), nullptr), VMART_INVALID_ARGUMENT);
  ASSERT_EQ(vmart_pool_default(c_gpu(0), &pool), VMART_OK);
  EXPECT_EQ(vmart_pool_allocate(pool, 1, 3, stream(0), &block), VMART_INVALID_ARGUMENT);
  EXPECT_EQ(vmart_pool_stats_get(pool, nullptr), VMART_INVALID_ARGUMENT);
  vmart_pool_stats small{};
  EXPECT_EQ(vmart_pool_stats_get(pool, &small), VMART_INVALID_ARGUMENT);
  vmart_pool_release(pool);
  vmart_pool_release(nullptr);
}

}  // namespace
}  // namespace vma
