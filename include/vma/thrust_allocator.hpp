#pragma once

/// For programs on Thrust of CCCL 3.1 or newer: an allocator of `thrust::device_vector`.

#include <vma/export.hpp>

#include <cuda/memory_resource>
#include <cuda/stream_ref>
#include <thrust/device_ptr.h>
#include <thrust/device_reference.h>

#include <cstddef>
#include <limits>
#include <new>
#include <utility>

namespace vma::inline v1 {

/// Allocates from any resource of `cuda::mr`, such as `MemoryResource`: in the order of a stream,
/// unless the resource has no stream-ordered calls. Algorithms on a vector see memory of Thrust's
/// device system, and construct its elements there. Thread-safe as the resource.
template <typename Value, typename Resource>
class ThrustAllocator {
 public:
  using value_type = Value;
  using pointer = thrust::device_ptr<Value>;
  using const_pointer = thrust::device_ptr<const Value>;
  using reference = thrust::device_reference<Value>;
  using const_reference = thrust::device_reference<const Value>;
  using size_type = std::size_t;
  using difference_type = typename pointer::difference_type;

  template <typename Other>
  struct rebind {
    using other = ThrustAllocator<Other, Resource>;
  };

  /// Requires: the work of the vectors is on `stream`, or ordered with it, as is that of Thrust's
  /// algorithms without a policy with the null stream.
  explicit ThrustAllocator(Resource resource,
                           cuda::stream_ref stream = cuda::stream_ref(cudaStream_t{nullptr}))
      : resource_(std::move(resource)), stream_(stream) {}
  template <typename Other>
  explicit ThrustAllocator(const ThrustAllocator<Other, Resource>& other)
      : ThrustAllocator(other.resource(), other.stream()) {}

  /// Throws: std::bad_alloc, and what the resource throws.
  pointer allocate(size_type count) {
    if (count > std::numeric_limits<size_type>::max() / sizeof(Value)) throw std::bad_alloc();
    const std::size_t bytes = count * sizeof(Value);
    void* memory = nullptr;
    if constexpr (cuda::mr::resource<Resource>) {
      memory = resource_.allocate(stream_, bytes, alignment);
    } else {
      memory = resource_.allocate_sync(bytes, alignment);
    }
    return pointer(static_cast<Value*>(memory));
  }
  void deallocate(pointer values, size_type count) {
    const std::size_t bytes = count * sizeof(Value);
    if constexpr (cuda::mr::resource<Resource>) {
      resource_.deallocate(stream_, values.get(), bytes, alignment);
    } else {
      resource_.deallocate_sync(values.get(), bytes, alignment);
    }
  }

  const Resource& resource() const noexcept { return resource_; }
  cuda::stream_ref stream() const noexcept { return stream_; }

  friend bool operator==(const ThrustAllocator& a, const ThrustAllocator& b) {
    return a.resource_ == b.resource_ && a.stream_ == b.stream_;
  }

 private:
  // At least that of cudaMalloc: Thrust reads several values at once.
  static constexpr std::size_t alignment = alignof(Value) > cuda::mr::default_cuda_malloc_alignment
                                               ? alignof(Value)
                                               : cuda::mr::default_cuda_malloc_alignment;

  Resource resource_;
  cuda::stream_ref stream_;
};

}  // namespace vma::inline v1
