// Goal: what goes wrong reaches callers of `cuda::mr` as they expect it: std::bad_alloc where
// memory runs out, vma::Error for what is misused, nothing where memory is gone with its runtime.
#include "unit/memory_resource/resource_rig.hpp"

#include <memory>
#include <string>

namespace vma {
namespace {

constexpr std::size_t MiB = std::size_t{1} << 20;

TEST(ResourceErrors, NoMoreMemoryIsABadAllocWithTheReason) {
  PoolRig rig;
  PoolOptions options;
  options.max_bytes = MiB;
  AnyResource resource{MemoryResource(rig.runtime().make_pool(gpu(0), options))};
  const cuda::stream_ref stream(rig.stream(0));
  EXPECT_THROW(resource.allocate(stream, 2 * MiB, 256), std::bad_alloc);
  EXPECT_THROW(resource.allocate_sync(2 * MiB, 256), std::bad_alloc);
  EXPECT_THROW(resource.allocate(stream, std::size_t{1} << 50, 256), std::bad_alloc);
  EXPECT_THROW(resource.allocate_sync(SIZE_MAX, 256), std::bad_alloc);
  try {
    resource.deallocate(stream, resource.allocate(stream, 2 * MiB, 256), 2 * MiB, 256);
    FAIL() << "more than the pool may have";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.error().kind(), ErrorKind::out_of_memory);
    EXPECT_EQ(std::string(error.what()), error.error().what());
  }
  void* block = resource.allocate(stream, MiB / 2, 256);  // The pool still works.
  resource.deallocate(stream, block, MiB / 2, 256);
}

TEST(ResourceErrors, WithoutAStreamMemoryRunsOutOnlyWhenAllFreesAreComplete) {
  PoolRig rig;
  PoolOptions options;
  options.max_bytes = MiB;
  options.reuse = {false, false, false};  // Only a call that waits completes a free.
  const MemoryResource resource(rig.runtime().make_pool(gpu(0), options));
  const cuda::stream_ref stream(rig.new_stream());
  resource.deallocate(stream, resource.allocate(stream, MiB), MiB);
  void* block = resource.allocate_sync(MiB);
  EXPECT_EQ(rig.place(block), gpu(0));
  EXPECT_THROW(static_cast<void>(resource.allocate_sync(MiB)), OutOfMemory);
  resource.deallocate_sync(block, MiB);
}

TEST(ResourceErrors, AWrongAlignmentIsAnInvalidArgument) {
  PoolRig rig;
  const MemoryResource resource(rig.runtime().make_pool(gpu(0)));
  const HostMemoryResource on_host(rig.runtime(), host(0));
  const cuda::stream_ref stream(rig.stream(0));
  for (const std::size_t alignment : {std::size_t{0}, std::size_t{384}, 4 * MiB}) {
    EXPECT_EQ(kind_of_error([&] { std::ignore = resource.allocate(stream, 100, alignment); }),
              ErrorKind::invalid_argument);
    EXPECT_EQ(kind_of_error([&] { std::ignore = resource.allocate_sync(100, alignment); }),
              ErrorKind::invalid_argument);
    EXPECT_EQ(kind_of_error([&] { std::ignore = on_host.allocate_sync(100, alignment); }),
              ErrorKind::invalid_argument);
  }
}

TEST(ResourceErrors, WhatIsFreedTwiceIsNotHidden) {
  PoolRig rig;
  const MemoryResource resource(rig.runtime().make_pool(gpu(0)));
  const cuda::stream_ref stream(rig.stream(0));
  void* block = resource.allocate(stream, 100);
  resource.deallocate(stream, block, 100);
  EXPECT_EQ(kind_of_error([&] { resource.deallocate(stream, block, 100); }),
            ErrorKind::unknown_pointer);
  EXPECT_EQ(kind_of_error([&] { resource.deallocate_sync(block, 100); }),
            ErrorKind::unknown_pointer);
}

TEST(ResourceErrors, ADestroyedPoolRefusesAndTakesBackItsBlocks) {
  PoolRig rig;
  Pool pool = rig.runtime().make_pool(gpu(0));
  const MemoryResource resource(pool);
  const cuda::stream_ref stream(rig.stream(0));
  void* block = resource.allocate(stream, 100);
  pool.destroy();
  EXPECT_EQ(kind_of_error([&] { std::ignore = resource.allocate(stream, 100); }),
            ErrorKind::invalid_argument);
  resource.deallocate(stream, block, 100);
}

// A container in a static variable, for example.
TEST(ResourceErrors, AfterTheEndOfTheRuntimeMemoryIsGoneAlready) {
  auto rig = std::make_unique<PoolRig>();
  const cuda::stream_ref stream(rig->stream(0));
  const MemoryResource resource(rig->runtime().make_pool(gpu(0)));
  void* const blocks[] = {resource.allocate(stream, 100), resource.allocate_sync(100)};
  rig.reset();
  resource.deallocate(stream, blocks[0], 100);
  resource.deallocate_sync(blocks[1], 100);
  EXPECT_EQ(kind_of_error([&] { std::ignore = resource.allocate(stream, 100); }),
            ErrorKind::driver_gone);
}

}  // namespace
}  // namespace vma
