// What one of CUDA's own pools holds beyond the bytes that recorded programs ask for: the rival of
// pool_memory_bench.

#include "bench/allocations/memory_cases.hpp"
#include "bench/rivals/cuda_calls.hpp"
#include "bench/harness/samples.hpp"

#include <cstdint>
#include <vector>

namespace vma {
namespace {

class CudaMemory final : public MemorySubject {
 public:
  explicit CudaMemory(int streams) : streams_(static_cast<std::size_t>(streams)) {
    rival_machine().use(0);
    CUmemPoolProps properties = {};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    cuda().cuMemPoolCreate(&pool_, &properties);
    cuuint64_t everything = UINT64_MAX;
    cuda().cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &everything);
    for (CUstream& stream : streams_) cuda().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  }
  ~CudaMemory() override {
    cuda().cuCtxSynchronize.function();
    for (const CUstream stream : streams_) cuda().cuStreamDestroy.function(stream);
    cuda().cuMemPoolDestroy.function(pool_);
  }

  void* allocate(std::uint64_t bytes, int stream) override {
    CUdeviceptr block = 0;
    cuda().cuMemAllocFromPoolAsync(&block, bytes, pool_,
                                   streams_[static_cast<std::size_t>(stream)]);
    return reinterpret_cast<void*>(block);
  }
  void free(void* block, int stream) override {
    cuda().cuMemFreeAsync(reinterpret_cast<CUdeviceptr>(block),
                          streams_[static_cast<std::size_t>(stream)]);
  }
  std::uint64_t held_peak_bytes() override { return value(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH); }
  std::uint64_t used_peak_bytes() override { return value(CU_MEMPOOL_ATTR_USED_MEM_HIGH); }

 private:
  std::uint64_t value(CUmemPool_attribute attribute) {
    cuuint64_t bytes = 0;
    cuda().cuMemPoolGetAttribute(pool_, attribute, &bytes);
    return bytes;
  }

  CUmemoryPool pool_ = nullptr;
  std::vector<CUstream> streams_;
};

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  return vma::run_benchmarks(argc, argv, [] {
    if (vma::rival_machine().gpus.empty()) throw vma::Unavailable{"no GPU here"};
    vma::register_memory_cases(
        "cuda_pool_memory", [](int streams) { return std::make_unique<vma::CudaMemory>(streams); });
  });
}
