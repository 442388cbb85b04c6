#include "bench/rivals/foreign_load.hpp"

#include "base/executor.hpp"
#include "base/mutex.hpp"
#include "bench/harness/samples.hpp"

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <vector>

namespace vma {
namespace {

constexpr std::size_t malloc_sizes[] = {mebibyte, 4 * mebibyte, 16 * mebibyte, 64 * mebibyte};
constexpr int fills_a_wait = 16;  // Short backlogs, as in programs that wait for results.

}  // namespace

struct ForeignLoad::State {
  std::atomic<bool> stopping{false};
  std::atomic<std::uint64_t> mallocs{0}, synchronizes{0}, fills{0};
  mutable Mutex mutex;
  std::string error VMART_GUARDED_BY(mutex);
  ThreadedExecutor executor;
  std::vector<std::unique_ptr<Task>> tasks;  // Used only by the owner's thread.

  /// Returns false and ends the load if the call failed.
  bool passed(cudaError_t result, const char* call) {
    if (result == cudaSuccess) return true;
    const MutexLock lock(mutex);
    if (error.empty()) error = std::string(call) + ": " + cudaGetErrorName(result);
    stopping = true;
    return false;
  }

  void loop_malloc(int gpu) {
    if (!passed(cudaSetDevice(gpu), "cudaSetDevice")) return;
    for (std::size_t round = 0; !stopping; ++round) {
      void* pointer = nullptr;
      if (!passed(cudaMalloc(&pointer, malloc_sizes[round % std::size(malloc_sizes)]),
                  "cudaMalloc"))
        return;
      if (!passed(cudaFree(pointer), "cudaFree")) return;
      ++mallocs;
    }
  }

  void loop_synchronize(int gpu) {
    if (!passed(cudaSetDevice(gpu), "cudaSetDevice")) return;
    while (!stopping) {
      if (!passed(cudaDeviceSynchronize(), "cudaDeviceSynchronize")) return;
      ++synchronizes;
    }
  }

  void loop_fill(int gpu) {
    void* pointer = nullptr;
    if (!passed(cudaSetDevice(gpu), "cudaSetDevice")) return;
    if (!passed(cudaMalloc(&pointer, mebibyte), "cudaMalloc")) return;
    while (!stopping) {
      for (int fill = 0; fill < fills_a_wait; ++fill) {
        if (!passed(cudaMemsetAsync(pointer, fill, mebibyte, nullptr), "cudaMemsetAsync")) return;
        ++fills;
      }
      if (!passed(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize")) return;
    }
    passed(cudaFree(pointer), "cudaFree");
  }
};

ForeignLoad::ForeignLoad(int gpus) : state_(std::make_unique<State>()) {
  State* const state = state_.get();
  const auto spawn = [state](const char* name, auto body) {
    state->tasks.push_back(state->executor.spawn(name, body));
  };
  for (int gpu = 0; gpu < gpus; ++gpu) {
    spawn("load_malloc", [state, gpu] { state->loop_malloc(gpu); });
    spawn("load_sync", [state, gpu] { state->loop_synchronize(gpu); });
    spawn("load_fill", [state, gpu] { state->loop_fill(gpu); });
  }
}

ForeignLoad::~ForeignLoad() {
  stop();
}

void ForeignLoad::stop() {
  state_->stopping = true;
  for (const std::unique_ptr<Task>& task : state_->tasks) task->join();
  state_->tasks.clear();
}

std::uint64_t ForeignLoad::mallocs() const {
  return state_->mallocs;
}
std::uint64_t ForeignLoad::synchronizes() const {
  return state_->synchronizes;
}
std::uint64_t ForeignLoad::fills() const {
  return state_->fills;
}

std::string ForeignLoad::error() const {
  const MutexLock lock(state_->mutex);
  return state_->error;
}

}  // namespace vma
