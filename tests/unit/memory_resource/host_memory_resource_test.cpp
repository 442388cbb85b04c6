// Goal: memory of a HostMemoryResource is the CPU's and the kernels' alike, stays where it is, and
// goes back. Method: a simulated machine, on which the CPU may touch only what it has a view of.
#include "unit/memory_resource/resource_rig.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

namespace vma {
namespace {

constexpr std::size_t host_words = 10'000;
constexpr std::size_t host_bytes = host_words * sizeof(std::uint64_t);

TEST(HostMemoryResource, TheCpuAndKernelsUseOnePointer) {
  PoolRig rig;
  const HostMemoryResource resource(rig.runtime(), host(0));
  auto* words = static_cast<std::uint64_t*>(resource.allocate_sync(host_bytes));
  std::iota(words, words + host_words, 7);
  EXPECT_EQ(rig.wrong_for(0, words, host_words, 7), 0u);
  rig.fill_by(1, words, host_words, 100);
  EXPECT_EQ(std::accumulate(words, words + host_words, std::uint64_t{0}),
            100 * host_words + host_words * (host_words - 1) / 2);
  resource.deallocate_sync(words, host_bytes);
}

TEST(HostMemoryResource, MemoryStaysUntilItIsFreed) {
  PoolRig rig;
  const HostMemoryResource resource(rig.runtime(), host(0));
  const std::uint64_t before = rig.runtime().stats().allocations;
  void* block = resource.allocate_sync(host_bytes);
  EXPECT_EQ(rig.place(block), host(0));
  EXPECT_EQ(kind_of_error([&] { rig.runtime().migrate(block, gpu(0)); }), ErrorKind::pinned);
  resource.deallocate_sync(block, host_bytes);
  EXPECT_EQ(rig.runtime().stats().allocations, before);
  EXPECT_EQ(kind_of_error([&] { resource.deallocate_sync(block, host_bytes); }),
            ErrorKind::unknown_pointer);
}

TEST(HostMemoryResource, CopiesShareTheirBlocks) {
  PoolRig rig;
  HostMemoryResource resource(rig.runtime(), host(0));
  const HostMemoryResource copy(resource), other(rig.runtime(), host(0));
  EXPECT_TRUE(resource == copy);
  EXPECT_FALSE(resource == other);
  copy.deallocate_sync(resource.allocate_sync(host_bytes), host_bytes);
  const cuda::mr::any_synchronous_resource<cuda::mr::host_accessible, cuda::mr::device_accessible>
      any(resource);
  EXPECT_TRUE(any == cuda::mr::synchronous_resource_ref<cuda::mr::host_accessible>(resource));
}

TEST(HostMemoryResource, NoBytesAreNull) {
  PoolRig rig;
  const HostMemoryResource resource(rig.runtime(), host(0));
  EXPECT_EQ(resource.allocate_sync(0), nullptr);
  resource.deallocate_sync(nullptr, 0);
}

TEST(HostMemoryResource, RefusesPlacesThatTheCpuDoesNotReach) {
  PoolRig rig;
  const std::uint64_t before = rig.runtime().stats().allocations;
  const HostMemoryResource on_gpu(rig.runtime(), gpu(0)), nowhere(rig.runtime(), host(9));
  EXPECT_EQ(kind_of_error([&] { std::ignore = on_gpu.allocate_sync(host_bytes); }),
            ErrorKind::unsupported);
  EXPECT_EQ(kind_of_error([&] { std::ignore = nowhere.allocate_sync(host_bytes); }),
            ErrorKind::invalid_argument);
  EXPECT_EQ(rig.runtime().stats().allocations, before) << "nothing is left behind";
}

TEST(HostMemoryResource, ThreadsAllocateWriteAndFree) {
  PoolRig rig;
  const HostMemoryResource resource(rig.runtime(), host(0));
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 20; ++i) {
        auto* words = static_cast<std::uint64_t*>(resource.allocate_sync(8000));
        std::fill(words, words + 1000, thread);
        EXPECT_EQ(std::count(words, words + 1000, thread), 1000);
        resource.deallocate_sync(words, 8000);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace vma
