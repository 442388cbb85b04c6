// A program on CCCL against the installed tree: a buffer of CCCL keeps its pointer when its memory
// moves.

#include <vma/memory_resource.hpp>
#include <vma/thrust_allocator.hpp>
#include <vma/vma.hpp>

#include <cuda/buffer>

#include <cstdio>

int main() {
  const vma::Pool pool = vma::make_pool(vma::gpu(0));
  const vma::Stream stream = vma::make_stream(vma::gpu(0));
  bool moved = false;
  {
    const cuda::mr::any_resource<cuda::mr::device_accessible> resource{vma::MemoryResource(pool)};
    auto buffer = cuda::make_buffer<float>(cuda::stream_ref(stream), resource, 1000, cuda::no_init);
    const float* const before = buffer.data();
    vma::migrate(pool, vma::gpu(1));
    moved = buffer.data() == before && vma::where(before).front().at == vma::gpu(1);
  }
  vma::ThrustAllocator<float, vma::MemoryResource> allocator{vma::MemoryResource(pool),
                                                             cuda::stream_ref(stream)};
  allocator.deallocate(allocator.allocate(1000), 1000);
  vma::destroy_stream(stream);
  std::printf("cccl_consumer: %s\n", moved ? "moved behind its pointer" : "NOT moved");
  return moved ? 0 : 1;
}
