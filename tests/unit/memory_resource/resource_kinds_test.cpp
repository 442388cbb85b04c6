// Goal: the resources are what `cuda::mr` asks for, with the properties that are true of their
// memory and no others; equality, and what type erasure keeps. Method: the concepts, and copies.
#include "unit/memory_resource/resource_rig.hpp"

#include <concepts>
#include <utility>

namespace vma {
namespace {

using cuda::mr::device_accessible;
using cuda::mr::host_accessible;

static_assert(cuda::mr::resource<MemoryResource>);
static_assert(cuda::mr::resource_with<MemoryResource, device_accessible>);
static_assert(cuda::mr::synchronous_resource_with<MemoryResource, device_accessible>);
static_assert(!cuda::has_property<MemoryResource, host_accessible>, "it moves to GPUs");
static_assert(cuda::mr::resource_with<const MemoryResource, device_accessible>);
static_assert(std::regular<AnyResource>);
static_assert(std::copyable<MemoryResource> &&
              std::is_nothrow_move_constructible_v<MemoryResource>);

static_assert(cuda::mr::synchronous_resource<HostMemoryResource>);
static_assert(cuda::mr::synchronous_resource_with<HostMemoryResource, device_accessible>);
static_assert(cuda::mr::synchronous_resource_with<HostMemoryResource, host_accessible>);
static_assert(!cuda::mr::resource<HostMemoryResource>, "the CPU's part ends at once");
static_assert(std::copyable<HostMemoryResource>);

TEST(ResourceKinds, CopiesAndThoseOfOnePoolAreEqual) {
  PoolRig rig;
  const MemoryResource first(rig.runtime().make_pool(gpu(0)));
  const MemoryResource same(first.pool()), other(rig.runtime().make_pool(gpu(0)));
  const MemoryResource copy = first;  // NOLINT: a copy is what is tried.
  EXPECT_TRUE(first == first);
  EXPECT_TRUE(first == copy);
  EXPECT_TRUE(first == same);
  EXPECT_FALSE(first == other);
  EXPECT_TRUE(first != other);
}

TEST(ResourceKinds, AreEqualBehindAnyResourceAndReferences) {
  PoolRig rig;
  MemoryResource resource(rig.runtime().make_pool(gpu(0)));
  MemoryResource other(rig.runtime().make_pool(gpu(0)));
  const AnyResource any(resource), any_other(other);
  EXPECT_TRUE(any == any);
  EXPECT_TRUE(any == AnyResource(any));
  EXPECT_FALSE(any == any_other);
  const ResourceRef reference(resource), reference_to_other(other);
  EXPECT_TRUE(reference == ResourceRef(resource));
  EXPECT_FALSE(reference == reference_to_other);
  EXPECT_TRUE(reference == any);
}

TEST(ResourceKinds, AnyResourceKeepsThePoolAndTheProperty) {
  PoolRig rig;
  const Pool pool = rig.runtime().make_pool(gpu(0));
  AnyResource any{MemoryResource(pool)};
  AnyResource moved = std::move(any);
  void* block = moved.allocate(cuda::stream_ref(rig.stream(0)), 1000, 256);
  EXPECT_GE(pool.stats().used_bytes, 1000u);
  moved.deallocate(cuda::stream_ref(rig.stream(0)), block, 1000, 256);
  EXPECT_EQ(pool.stats().used_bytes, 0u);
  EXPECT_TRUE(try_get_property(moved, device_accessible{}));
  EXPECT_FALSE(try_get_property(moved, host_accessible{}));
  EXPECT_NE(cuda::mr::resource_cast<MemoryResource>(&moved), nullptr);
}

TEST(ResourceKinds, ASynchronousReferenceTakesBothResources) {
  PoolRig rig;
  MemoryResource resource(rig.runtime().make_pool(gpu(0)));
  HostMemoryResource on_host(rig.runtime(), host(0));
  const auto use = [](cuda::mr::synchronous_resource_ref<device_accessible> reference) {
    void* block = reference.allocate_sync(1000, 256);
    EXPECT_NE(block, nullptr);
    reference.deallocate_sync(block, 1000, 256);
  };
  use(resource);
  use(on_host);
}

TEST(ResourceKinds, ThePoolMayBeOneOfTheHost) {
  PoolRig rig;
  MemoryResource resource(rig.runtime().make_pool(host(0)));
  auto* words =
      static_cast<std::uint64_t*>(resource.allocate(cuda::stream_ref(rig.stream(0)), 8000));
  EXPECT_EQ(rig.place(words), host(0));
  rig.fill_by(0, words, 1000, 5);
  EXPECT_EQ(rig.wrong_for(1, words, 1000, 5), 0u);
  resource.deallocate(cuda::stream_ref(rig.stream(0)), words, 8000);
}

}  // namespace
}  // namespace vma
