// Cost of cudaMalloc plus cudaFree, on a single GPU (`plain`), and with peer access enabled between
// all GPUs (`peers`), which is closer to memory that every GPU can use. If built without the CUDA
// runtime library, it calls cuMemAlloc and cuMemFree, and its name says so.

#include "bench/rivals/cuda_calls.hpp"
#include "bench/harness/samples.hpp"

#ifdef VMART_BENCH_CUDART
#include <cuda_runtime_api.h>
#endif

#include <cstdint>
#include <stdexcept>
#include <string>

namespace vma {
namespace {

constexpr int warm_ups = 3;

#ifdef VMART_BENCH_CUDART
constexpr const char* subject = "cuda_malloc";

void require(cudaError_t result, const char* call) {
  if (result != cudaSuccess) {
    throw std::runtime_error(std::string(call) + ": " + cudaGetErrorName(result));
  }
}

int gpu_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) throw Unavailable{"no GPU here"};
  return count;
}

void open_peers() {
  const int count = gpu_count();
  for (int from = 0; from < count; ++from) {
    require(cudaSetDevice(from), "cudaSetDevice");
    for (int to = 0; to < count; ++to) {
      int reaches = 0;
      if (from != to)
        require(cudaDeviceCanAccessPeer(&reaches, from, to), "cudaDeviceCanAccessPeer");
      if (reaches != 0) require(cudaDeviceEnablePeerAccess(to, 0), "cudaDeviceEnablePeerAccess");
    }
  }
  require(cudaSetDevice(0), "cudaSetDevice");
}

Sample malloc_and_free(std::uint64_t bytes) {
  void* pointer = nullptr;
  const Stopwatch watch;
  require(cudaMalloc(&pointer, bytes), "cudaMalloc");
  const std::chrono::nanoseconds allocated = watch.elapsed();
  require(cudaFree(pointer), "cudaFree");
  Sample sample;
  sample.wall = watch.elapsed();
  sample.counters["alloc_us"] = to_us(allocated);
  sample.counters["free_us"] = to_us(sample.wall - allocated);
  return sample;
}
#else
constexpr const char* subject = "cu_mem_alloc";

int gpu_count() {
  return static_cast<int>(rival_machine().gpus.size());
}
void open_peers() {
  throw std::runtime_error("peer access is measured with the CUDA runtime only");
}

Sample malloc_and_free(std::uint64_t bytes) {
  CUdeviceptr begin = 0;
  const Stopwatch watch;
  cuda().cuMemAlloc(&begin, bytes);
  const std::chrono::nanoseconds allocated = watch.elapsed();
  cuda().cuMemFree(begin);
  Sample sample;
  sample.wall = watch.elapsed();
  sample.counters["alloc_us"] = to_us(allocated);
  sample.counters["free_us"] = to_us(sample.wall - allocated);
  return sample;
}
#endif

void register_all() {
  const int gpus = gpu_count();
  // The order matters, because peer access is never disabled.
  for (const bool peers : {false, true}) {
#ifdef VMART_BENCH_CUDART
    if (peers && gpus < 2) continue;
#else
    if (peers || gpus == 0) continue;
#endif
    for (const std::uint64_t bytes :
         sizes_up_to_max({2 * mebibyte, 16 * mebibyte, 64 * mebibyte, 256 * mebibyte})) {
      register_samples(std::string(subject) + (peers ? "/peers/" : "/plain/") + size_label(bytes),
                       [bytes, peers, warm = false]() mutable {
                         static bool peers_open = false;
                         if (peers && !peers_open) open_peers();
                         peers_open = peers_open || peers;
                         for (int round = 0; round < warm_ups && !warm; ++round)
                           malloc_and_free(bytes);
                         warm = true;
                         return malloc_and_free(bytes);
                       });
    }
  }
}

}  // namespace
}  // namespace vma

int main(int argc, char** argv) {
  return vma::run_benchmarks(argc, argv, vma::register_all);
}
