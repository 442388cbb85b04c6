#pragma once

#include "base/process_exit.hpp"
#include "driver/driver.hpp"
#include "driver/native_codes.hpp"

#include <cuda.h>
#include <cudaTypedefs.h>
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

static_assert(CUDA_VERSION >= 12050, "building needs the cuda.h of CUDA 12.5 or newer");

// Every CUDA call used, one row each: its base name, and the driver version whose signature is
// requested from cuGetProcAddress. `cuda_api.cpp` checks each row against cudaTypedefs.h.
// clang-format would repack the rows.
// clang-format off
#define VMART_CUDA_CALLS(ROW)                        \
  ROW(cuInit, 2000)                                  \
  ROW(cuDriverGetVersion, 2020)                      \
  ROW(cuDeviceGetCount, 2000)                        \
  ROW(cuDeviceGet, 2000)                             \
  ROW(cuDeviceGetName, 2000)                         \
  ROW(cuDeviceGetUuid, 11040)                        \
  ROW(cuDeviceGetPCIBusId, 4010)                     \
  ROW(cuDeviceTotalMem, 3020)                        \
  ROW(cuDeviceGetAttribute, 2000)                    \
  ROW(cuDeviceCanAccessPeer, 4000)                   \
  ROW(cuDeviceGetP2PAttribute, 8000)                 \
  ROW(cuMemGetAllocationGranularity, 10020)          \
  ROW(cuMemGetInfo, 3020)                            \
  ROW(cuMemAddressReserve, 10020)                    \
  ROW(cuMemAddressFree, 10020)                       \
  ROW(cuMemCreate, 10020)                            \
  ROW(cuMemRelease, 10020)                           \
  ROW(cuMemMap, 10020)                               \
  ROW(cuMemUnmap, 10020)                             \
  ROW(cuMemSetAccess, 10020)                         \
  ROW(cuMemGetAccess, 10020)                         \
  ROW(cuMemRetainAllocationHandle, 11000)            \
  ROW(cuMemExportToShareableHandle, 10020)           \
  ROW(cuMemImportFromShareableHandle, 10020)         \
  ROW(cuMemGetAllocationPropertiesFromHandle, 10020) \
  ROW(cuMemGetAddressRange, 3020)                    \
  ROW(cuPointerGetAttribute, 4000)                   \
  ROW(cuDevicePrimaryCtxGetState, 7000)              \
  ROW(cuDevicePrimaryCtxRetain, 7000)                \
  ROW(cuDevicePrimaryCtxRelease, 11000)              \
  ROW(cuCtxDestroy, 4000)                            \
  ROW(cuCtxGetCurrent, 4000)                         \
  ROW(cuCtxSetCurrent, 4000)                         \
  ROW(cuCtxPushCurrent, 4000)                        \
  ROW(cuCtxPopCurrent, 4000)                         \
  ROW(cuCtxGetDevice, 2000)                          \
  ROW(cuCtxSynchronize, 2000)                        \
  ROW(cuCtxGetId, 12000)                             \
  ROW(cuCtxSetLimit, 3010)                           \
  ROW(cuStreamCreateWithPriority, 5050)              \
  ROW(cuCtxGetStreamPriorityRange, 5050)             \
  ROW(cuStreamDestroy, 4000)                         \
  ROW(cuStreamGetCtx, 9020)                          \
  ROW(cuStreamGetId, 12000)                          \
  ROW(cuStreamGetFlags, 5050)                        \
  ROW(cuStreamIsCapturing, 10000)                    \
  ROW(cuStreamQuery, 2000)                           \
  ROW(cuStreamWaitEvent, 3020)                       \
  ROW(cuStreamBatchMemOp, 11070)                     \
  ROW(cuStreamBeginCapture, 10010)                   \
  ROW(cuStreamEndCapture, 10000)                     \
  ROW(cuThreadExchangeStreamCaptureMode, 10010)      \
  ROW(cuEventCreate, 2000)                           \
  ROW(cuEventDestroy, 4000)                          \
  ROW(cuEventRecord, 2000)                           \
  ROW(cuEventQuery, 2000)                            \
  ROW(cuMemcpyAsync, 4000)                           \
  ROW(cuMemsetD8Async, 3020)                         \
  ROW(cuModuleLoadDataEx, 2010)                      \
  ROW(cuModuleUnload, 2000)                          \
  ROW(cuModuleGetFunction, 2000)                     \
  ROW(cuFuncLoad, 12040)                             \
  ROW(cuLaunchKernel, 4000)                          \
  ROW(cuLaunchKernelEx, 11060)                       \
  ROW(cuGraphInstantiateWithFlags, 11040)            \
  ROW(cuGraphLaunch, 10000)                          \
  ROW(cuGraphCreate, 10000)                          \
  ROW(cuGraphAddKernelNode, 12000)                   \
  ROW(cuGraphAddBatchMemOpNode, 11070)               \
  ROW(cuGraphUpload, 11010)                          \
  ROW(cuGraphExecKernelNodeSetParams, 12000)         \
  ROW(cuGraphExecBatchMemOpNodeSetParams, 11070)     \
  ROW(cuGraphDestroy, 10000)                         \
  ROW(cuGraphRetainUserObject, 11030)                \
  ROW(cuUserObjectCreate, 11030)                     \
  ROW(cuUserObjectRelease, 11030)                    \
  ROW(cuGraphExecDestroy, 10000)                     \
  ROW(cuMemHostAlloc, 2020)                          \
  ROW(cuMemFreeHost, 2000)                           \
  ROW(cuMemAlloc, 3020)                              \
  ROW(cuMemFree, 3020)
// clang-format on
// The header's declarations of these calls change with its version, so the type is the typedef of
// the requested version.
#define VMART_CUDA_PINNED_CALLS(ROW) \
  ROW(cuCtxCreate, 3020)             \
  ROW(cuStreamGetCaptureInfo, 11030)

// Newer than the oldest supported driver. Calling one that is missing throws.
#define VMART_CUDA_OPTIONAL_CALLS(ROW)    \
  ROW(cuCtxRecordEvent, 12050)            \
  ROW(cuCtxWaitEvent, 12050)              \
  ROW(cuDeviceGetDevResource, 12040)      \
  ROW(cuDevSmResourceSplitByCount, 12040) \
  ROW(cuDevResourceGenerateDesc, 12040)   \
  ROW(cuGreenCtxCreate, 12040)            \
  ROW(cuGreenCtxDestroy, 12040)           \
  ROW(cuCtxFromGreenCtx, 12040)           \
  ROW(cuFuncGetParamInfo, 12040)          \
  ROW(cuKernelGetParamInfo, 12040)

namespace vma {

/// The oldest supported driver: 550, which introduced CUDA 12.4.
constexpr int oldest_cuda_version = 12040;

/// Formats an argument of a call for errors: sizes in decimal, addresses and handles in
/// hexadecimal.
template <typename Value>
std::string cuda_argument(Value value) {
  if constexpr (std::is_same_v<Value, const char*>) {
    return fmt::format("\"{}\"", value);
  } else if constexpr (std::is_pointer_v<Value>) {
    return fmt::format("{:#x}", reinterpret_cast<std::uintptr_t>(value));
  } else if constexpr (std::is_enum_v<Value>) {
    return fmt::format("{}", static_cast<int>(value));
  } else if constexpr (std::is_same_v<Value, unsigned long long>) {
    return fmt::format("{:#x}", value);  // CUdeviceptr and handles; sizes are size_t.
  } else {
    return fmt::format("{}", value);
  }
}

template <typename Pointer>
struct CudaCall;

/// One entry point of the driver.
template <typename... Args>
struct CudaCall<CUresult (*)(Args...)> {
  const char* name;  // The base name: the macro-expanded "_v2" is for dlsym, not cuGetProcAddress.
  int since;
  CUresult (*function)(Args...) = nullptr;

  /// Returns the code, for answers such as NOT_READY. Throws: only if the driver has no such call.
  /// During process exit, does not call the driver, which may already be destroyed.
  CUresult attempt(Args... args) const {
    if (function == nullptr) throw missing();
    const ProcessExit::DriverCall call;
    if (!call) return CUDA_ERROR_DEINITIALIZED;
    return function(args...);
  }

  /// Throws: Error that names the call, the code and the arguments.
  void operator()(Args... args) const {
    const CUresult result = attempt(args...);
    if (result == CUDA_SUCCESS) return;
    std::string arguments;
    ((arguments += arguments.empty() ? cuda_argument(args) : ", " + cuda_argument(args)), ...);
    throw driver_error(result, name, "(" + arguments + ")");
  }

 private:
  Error missing() const {
    return driver_error(
        native_not_supported, name,
        fmt::format("needs a driver for CUDA {}.{} or newer", since / 1000, since % 1000 / 10));
  }
};

/// The driver library's entry points.
struct CudaApi {
#define ROW(call, version) CudaCall<decltype(&::call)> call{#call, version};
  VMART_CUDA_CALLS(ROW)
  VMART_CUDA_OPTIONAL_CALLS(ROW)
#undef ROW
#define ROW(call, version) CudaCall<PFN_##call##_v##version> call{#call, version};
  VMART_CUDA_PINNED_CALLS(ROW)
#undef ROW

  /// Such as 12040 for CUDA 12.4.
  int version = 0;
  /// Where the calls were found: the library's handle, and its own look-up.
  void* library = nullptr;
  PFN_cuGetProcAddress_v12000 resolve = nullptr;
};

/// Loads libcuda.so.1 and initialises it on the first call. Later calls return the same table; it
/// is never freed, because the library must outlive every thread that may still be in it. Throws:
/// Error{no_driver} without a driver or a GPU, {unsupported} if the driver is too old. A call after
/// a failure tries again.
const CudaApi& cuda_api();

/// The names of the calls, in the order of the rows.
std::vector<std::string> cuda_call_names();

/// The parameters of a CUfunction or a CUkernel, in order. Queries one after the other until the
/// driver reports no more. The two kinds share a type in many interfaces (`cuLaunchKernel` takes
/// both, and cudart passes it CUkernels), so a handle that `cuFuncGetParamInfo` refuses is passed
/// to `cuKernelGetParamInfo`. Throws: Error{unsupported} if the driver has no such call;
/// {invalid_argument} if neither call knows the handle; {driver_failure} if the answer is
/// impossible for a kernel.
KernelParameters cuda_parameters(const CudaApi& api, const void* function);

/// Whether the driver still reports the last of these parameters or, for an empty list, no
/// parameters. Only one call, because it is made for every launch and takes the driver's lock.
bool cuda_has_parameters(const CudaApi& api, const void* function,
                         const KernelParameters& parameters);

}  // namespace vma
