#pragma once

#include <cuda.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

// The driver's entry points that the rivals use, found by dlopen, so that the programs build and
// start without a driver. They share no code with the runtime that they are compared with.
// clang-format off
#define VMART_RIVAL_CALLS(ROW)                                                                    \
  ROW(cuInit) ROW(cuDeviceGetCount) ROW(cuDeviceGet) ROW(cuDeviceGetAttribute)                    \
  ROW(cuDevicePrimaryCtxRetain) ROW(cuCtxSetCurrent) ROW(cuCtxSynchronize) ROW(cuStreamCreate)    \
  ROW(cuStreamSynchronize) ROW(cuMemAddressReserve) ROW(cuMemAddressFree) ROW(cuMemCreate)        \
  ROW(cuMemRelease) ROW(cuMemMap) ROW(cuMemUnmap) ROW(cuMemSetAccess) ROW(cuMemcpy)               \
  ROW(cuMemcpyAsync) ROW(cuMemsetD32) ROW(cuMemAllocManaged) ROW(cuMemPrefetchAsync)              \
  ROW(cuMemAlloc) ROW(cuMemFree) ROW(cuMemAdvise) ROW(cuMemHostAlloc) ROW(cuMemFreeHost)          \
  ROW(cuDeviceGetDefaultMemPool) ROW(cuMemPoolSetAttribute) ROW(cuMemAllocAsync)                  \
  ROW(cuMemFreeAsync) ROW(cuMemPoolCreate) ROW(cuMemPoolDestroy) ROW(cuMemPoolGetAttribute)       \
  ROW(cuMemAllocFromPoolAsync) ROW(cuStreamDestroy)                                               \
  ROW(cuModuleLoadData) ROW(cuModuleGetFunction) ROW(cuLaunchKernel)
// clang-format on

namespace vma {

template <typename Pointer>
struct RivalCall;

/// One entry point. Calling it throws std::runtime_error with the call's name and its code unless
/// it succeeds.
template <typename... Args>
struct RivalCall<CUresult (*)(Args...)> {
  const char* name;
  const char* symbol;
  CUresult (*function)(Args...) = nullptr;

  void operator()(Args... args) const {
    const CUresult result = function(args...);
    if (result != CUDA_SUCCESS) fail(result);
  }

 private:
  [[noreturn]] void fail(CUresult result) const {
    throw std::runtime_error(std::string(name) + ": CUresult " +
                             std::to_string(static_cast<int>(result)));
  }
};

// The headers' macros turn a base name into the versioned symbol; this yields the name after that
// expansion.
#define VMART_SPELL(name) #name

struct RivalCalls {
#define ROW(call) RivalCall<decltype(&::call)> call{#call, VMART_SPELL(call)};
  VMART_RIVAL_CALLS(ROW)
#undef ROW
};

/// The calls; loads and initialises them on first use. Throws: Unavailable without a driver or a
/// GPU.
const RivalCalls& cuda();

/// The rivals' view of the machine: all visible GPUs, each with its primary context and a stream.
struct RivalMachine {
  struct Gpu {
    CUdevice device = 0;
    CUcontext context = nullptr;
    CUstream stream = nullptr;
  };
  std::vector<Gpu> gpus;

  /// Makes the context of `ordinal` current.
  void use(int ordinal) const;
};

/// Opened on first use, for the rest of the process. Throws: like `cuda`.
const RivalMachine& rival_machine();

/// A chunk of physical memory with its own addresses, mapped and granted to every GPU.
/// Ordinal -1 is host NUMA node 0.
class RivalChunk {
 public:
  RivalChunk(int ordinal, std::size_t bytes);
  ~RivalChunk();
  RivalChunk(const RivalChunk&) = delete;
  RivalChunk& operator=(const RivalChunk&) = delete;

  CUdeviceptr begin() const noexcept { return begin_; }

 private:
  std::size_t bytes_;
  CUdeviceptr begin_ = 0;
};

/// Properties of memory at the GPU with that ordinal; -1 for host NUMA node 0.
CUmemAllocationProp properties_at(int ordinal);
/// Grants read and write access to every GPU: one that is left out would fault (the access bug of
/// the naive sequence).
void grant_to_all(CUdeviceptr begin, std::size_t bytes);

/// Copies on the stream of the GPU `by`, and waits until the data has arrived.
void copy_and_wait(int by, CUdeviceptr target, CUdeviceptr source, std::size_t bytes);

/// Fills the range with the 32-bit word `value`, and verifies the first, middle and last word.
void fill_words(CUdeviceptr begin, std::size_t bytes, unsigned value);
/// Throws: std::runtime_error if one of those words differs.
void expect_words(CUdeviceptr begin, std::size_t bytes, unsigned value);

}  // namespace vma
