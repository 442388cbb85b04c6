#include "bench/rivals/foreign_load.hpp"

#ifdef VMART_BENCH_CUDART
#include "bench/harness/load_threads.hpp"

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <stdexcept>
#include <string>

namespace vma {
namespace {

constexpr std::size_t malloc_sizes[] = {mebibyte, 4 * mebibyte, 16 * mebibyte, 64 * mebibyte};
constexpr int fills_a_wait = 16;  // Short backlogs, as in programs that wait for results.

void require(cudaError_t result, const char* call) {
  if (result != cudaSuccess)
    throw std::runtime_error(std::string(call) + ": " + cudaGetErrorName(result));
}

}  // namespace

struct ForeignLoad::State {
  std::atomic<std::uint64_t> mallocs{0}, synchronizes{0}, fills{0};
  LoadThreads threads;

  void loop_malloc(int gpu) {
    require(cudaSetDevice(gpu), "cudaSetDevice");
    for (std::size_t round = 0; !threads.stopping(); ++round) {
      void* pointer = nullptr;
      require(cudaMalloc(&pointer, malloc_sizes[round % std::size(malloc_sizes)]), "cudaMalloc");
      require(cudaFree(pointer), "cudaFree");
      ++mallocs;
    }
  }

  void loop_synchronize(int gpu) {
    require(cudaSetDevice(gpu), "cudaSetDevice");
    while (!threads.stopping()) {
      require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      ++synchronizes;
    }
  }

  void loop_fill(int gpu) {
    void* pointer = nullptr;
    require(cudaSetDevice(gpu), "cudaSetDevice");
    require(cudaMalloc(&pointer, mebibyte), "cudaMalloc");
    while (!threads.stopping()) {
      for (int fill = 0; fill < fills_a_wait; ++fill) {
        require(cudaMemsetAsync(pointer, fill, mebibyte, nullptr), "cudaMemsetAsync");
        ++fills;
      }
      require(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
    }
    require(cudaFree(pointer), "cudaFree");
  }
};

ForeignLoad::ForeignLoad(int gpus) {
  if (gpus == 0) return;
  state_ = std::make_unique<State>();
  State* const state = state_.get();
  for (int gpu = 0; gpu < gpus; ++gpu) {
    state->threads.spawn("load_malloc", [state, gpu] { state->loop_malloc(gpu); });
    state->threads.spawn("load_sync", [state, gpu] { state->loop_synchronize(gpu); });
    state->threads.spawn("load_fill", [state, gpu] { state->loop_fill(gpu); });
  }
}

void ForeignLoad::stop(Sample& sample) {
  if (!state_) return;
  state_->threads.stop();
  sample.counters["cuda_mallocs"] = static_cast<double>(state_->mallocs);
  sample.counters["device_synchronizes"] = static_cast<double>(state_->synchronizes);
  sample.counters["legacy_fills"] = static_cast<double>(state_->fills);
}

#else
namespace vma {

struct ForeignLoad::State {};

ForeignLoad::ForeignLoad(int) {}

void ForeignLoad::stop(Sample&) {}

#endif

ForeignLoad::~ForeignLoad() = default;

}  // namespace vma
