// Goal: Thrust's vectors hold memory of the resources. Method: Thrust with the host as its device
// system, so that its algorithms run without nvcc on memory that the CPU reaches; vectors whose
// memory it does not reach are used by simulated kernels only.
#include <vma/memory_resource.hpp>
#include <vma/thrust_allocator.hpp>

#include "unit/pools/pool_rig.hpp"

#include <gtest/gtest.h>

#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/reduce.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

namespace vma {
namespace {

using Word = std::uint64_t;
using MovingWords = thrust::device_vector<Word, ThrustAllocator<Word, MemoryResource>>;
using HostWords = thrust::device_vector<Word, ThrustAllocator<Word, HostMemoryResource>>;

constexpr std::size_t count = 5000;

TEST(ThrustAllocator, AVectorOfMovingMemoryKeepsItsPointer) {
  PoolRig rig;
  const Pool pool = rig.runtime().make_pool(gpu(0));
  {
    MovingWords words{ThrustAllocator<Word, MemoryResource>(MemoryResource(pool),
                                                            cuda::stream_ref(rig.stream(0)))};
    words.resize(count, thrust::no_init);
    Word* const data = thrust::raw_pointer_cast(words.data());
    rig.fill_by(0, data, count, 3);
    rig.runtime().migrate(pool, gpu(1));
    EXPECT_EQ(thrust::raw_pointer_cast(words.data()), data);
    EXPECT_EQ(rig.place(data), gpu(1));
    EXPECT_EQ(rig.wrong_for(0, data, count, 3), 0u);
    MovingWords taken = std::move(words);
    EXPECT_EQ(thrust::raw_pointer_cast(taken.data()), data);
  }
  EXPECT_EQ(pool.stats().used_bytes, 0u);
}

TEST(ThrustAllocator, AlgorithmsAndKernelsShareAVectorAtTheHost) {
  PoolRig rig;
  const std::uint64_t before = rig.runtime().stats().allocations;
  {
    HostWords words(count, 1, ThrustAllocator<Word, HostMemoryResource>({rig.runtime(), host(0)}));
    EXPECT_EQ(thrust::reduce(words.begin(), words.end()), count);
    thrust::sequence(words.rbegin(), words.rend(), Word{10});
    thrust::sort(words.begin(), words.end());
    Word* data = thrust::raw_pointer_cast(words.data());
    EXPECT_EQ(rig.wrong_for(1, data, count, 10), 0u) << "a kernel sees what Thrust has sorted";
    rig.fill_by(0, data, count, 2);
    EXPECT_EQ(thrust::reduce(words.begin(), words.end()), 2 * count + count * (count - 1) / 2);
    for (Word i = 0; i < count; ++i) words.push_back(2 + count + i);  // It grows several times.
    data = thrust::raw_pointer_cast(words.data());
    EXPECT_EQ(rig.wrong_for(1, data, 2 * count, 2), 0u);
    const HostWords copy = words;
    EXPECT_TRUE(copy == words);
  }
  EXPECT_EQ(rig.runtime().stats().allocations, before);
}

TEST(ThrustAllocator, AlgorithmsTakeTheirTemporaryMemoryFromIt) {
  PoolRig rig;
  ThrustAllocator<Word, HostMemoryResource> allocator({rig.runtime(), host(0)});
  ThrustAllocator<char, HostMemoryResource> temporary(allocator);
  EXPECT_TRUE(temporary.resource() == allocator.resource());
  HostWords words(count, allocator);
  thrust::sequence(words.rbegin(), words.rend());
  thrust::stable_sort(thrust::device(temporary), words.begin(), words.end());
  EXPECT_EQ(rig.wrong_for(0, thrust::raw_pointer_cast(words.data()), count, 0), 0u);
}

TEST(ThrustAllocator, RefusesMoreElementsThanThereAreAddresses) {
  PoolRig rig;
  ThrustAllocator<Word, MemoryResource> allocator(MemoryResource(rig.runtime().make_pool(gpu(0))));
  EXPECT_THROW(allocator.allocate(SIZE_MAX / 2), std::bad_alloc);
  EXPECT_THROW(allocator.allocate(SIZE_MAX / 16), std::bad_alloc);
}

}  // namespace
}  // namespace vma
