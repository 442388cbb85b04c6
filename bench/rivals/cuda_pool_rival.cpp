// Cost of cuMemAllocAsync plus cuMemFreeAsync on CUDA's default pool, which keeps its memory: the
// rival of pool_bench.

#include "bench/calls/pool_cases.hpp"
#include "bench/rivals/cuda_calls.hpp"
#include "bench/harness/samples.hpp"

#include <cstdint>
#include <vector>

namespace vma {
namespace {

class CudaPool final : public PoolSubject {
 public:
  explicit CudaPool(int streams) : streams_(static_cast<std::size_t>(streams)) {
    rival_machine().use(0);
    CUmemoryPool pool = nullptr;
    cuda().cuDeviceGetDefaultMemPool(&pool, rival_machine().gpus.front().device);
    cuuint64_t everything = UINT64_MAX;
    cuda().cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &everything);
    for (CUstream& stream : streams_) cuda().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  }

  void enter_thread() override { rival_machine().use(0); }
  void pairs(int allocates, int frees, std::uint64_t bytes, int times) override {
    const CUstream from = streams_[static_cast<std::size_t>(allocates)];
    const CUstream to = streams_[static_cast<std::size_t>(frees)];
    for (int i = 0; i < times; ++i) {
      CUdeviceptr block = 0;
      cuda().cuMemAllocAsync(&block, bytes, from);
      cuda().cuMemFreeAsync(block, to);
    }
  }

 private:
  std::vector<CUstream> streams_;  // Until the process ends.
};

void register_rival() {
  if (rival_machine().gpus.empty()) throw Unavailable{"no GPU here"};
  register_pool_cases("cuda_pool", [](int streams) { return std::make_unique<CudaPool>(streams); });
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  return vma::run_benchmarks(argc, argv, vma::register_rival);
}
