#include "unit/memory_resource/resource_rig.hpp"

#include <array>

namespace vma {
namespace {

template <typename Resource>
void* allocate_in(Order order, Resource&& resource, cuda::stream_ref stream, std::size_t bytes,
                  std::size_t alignment) {
  if (order == Order::none) return resource.allocate_sync(bytes, alignment);
  return resource.allocate(stream, bytes, alignment);
}

template <typename Resource>
void deallocate_in(Order order, Resource&& resource, cuda::stream_ref stream, void* pointer,
                   std::size_t bytes, std::size_t alignment) {
  if (order == Order::none) return resource.deallocate_sync(pointer, bytes, alignment);
  resource.deallocate(stream, pointer, bytes, alignment);
}

}  // namespace

ResourceTest::ResourceTest()
    : resource_(rig_.runtime().make_pool(gpu(0))),
      stream_(std::get<Order>(GetParam()) == Order::own_stream ? rig_.new_stream() : nullptr),
      any_(resource_) {}

/// The default stream is that of the thread's current context, as the CUDA runtime sees to it.
Order ResourceTest::order() {
  const Order order = std::get<Order>(GetParam());
  if (order == Order::default_stream) {
    const BoundStream other = parts_of(rig_.runtime()).machinery->launcher.bind(rig_.stream(0));
    rig_.machine().set_current_context(other.context);
  }
  return order;
}

void* ResourceTest::allocate(std::size_t bytes, std::size_t alignment) {
  const Order order = this->order();
  switch (std::get<Held>(GetParam())) {
    case Held::itself: return allocate_in(order, resource_, stream(), bytes, alignment);
    case Held::in_any_resource: return allocate_in(order, any_, stream(), bytes, alignment);
    case Held::by_reference: break;
  }
  return allocate_in(order, ResourceRef(resource_), stream(), bytes, alignment);
}

void ResourceTest::deallocate(void* pointer, std::size_t bytes, std::size_t alignment) {
  const Order order = this->order();
  switch (std::get<Held>(GetParam())) {
    case Held::itself: return deallocate_in(order, resource_, stream(), pointer, bytes, alignment);
    case Held::in_any_resource:
      return deallocate_in(order, any_, stream(), pointer, bytes, alignment);
    case Held::by_reference: break;
  }
  deallocate_in(order, ResourceRef(resource_), stream(), pointer, bytes, alignment);
}

std::string name_of(const testing::TestParamInfo<std::tuple<Held, Order>>& info) {
  constexpr std::array held = {"itself", "in_any_resource", "by_reference"};
  constexpr std::array order = {"without_a_stream", "on_the_default_stream", "on_a_stream"};
  return std::string(held.at(static_cast<std::size_t>(std::get<Held>(info.param)))) + "_" +
         order.at(static_cast<std::size_t>(std::get<Order>(info.param)));
}

}  // namespace vma
