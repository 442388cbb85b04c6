#pragma once

#include <vma/memory_resource.hpp>

#include "unit/pools/pool_rig.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <tuple>

namespace vma {

/// How a program holds a resource.
enum class Held { itself, in_any_resource, by_reference };
/// In whose order it asks for memory.
enum class Order { none, default_stream, own_stream };

inline constexpr std::size_t word_bytes = sizeof(std::uint64_t);

using AnyResource = cuda::mr::any_resource<cuda::mr::device_accessible>;
using ResourceRef = cuda::mr::resource_ref<cuda::mr::device_accessible>;

/// A resource on a simulated machine with two GPUs, asked in one of these ways.
class ResourceTest : public testing::TestWithParam<std::tuple<Held, Order>> {
 protected:
  ResourceTest();

  /// Any thread.
  void* allocate(std::size_t bytes, std::size_t alignment = MemoryResource::default_alignment);
  void deallocate(void* pointer, std::size_t bytes,
                  std::size_t alignment = MemoryResource::default_alignment);
  cuda::stream_ref stream() const { return cuda::stream_ref(stream_); }

  PoolRig rig_;
  MemoryResource resource_;

 private:
  Order order();

  Stream stream_;
  AnyResource any_;
};

std::string name_of(const testing::TestParamInfo<std::tuple<Held, Order>>& info);

#define VMART_ALL_WAYS                                                                       \
  testing::Combine(testing::Values(Held::itself, Held::in_any_resource, Held::by_reference), \
                   testing::Values(Order::none, Order::default_stream, Order::own_stream)),  \
      name_of

}  // namespace vma
