#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

// What the program calls of the driver: the name by which CUDA's runtime asks for it, and the
// version.
// clang-format off
#define FUZZ_CALLS(ROW) \
  ROW(cuInit, v2000) ROW(cuDeviceGetCount, v2000) ROW(cuDevicePrimaryCtxRetain, v7000) \
  ROW(cuDevicePrimaryCtxRelease, v11000) ROW(cuCtxDestroy, v4000) \
  ROW(cuCtxSetCurrent, v4000) ROW(cuCtxGetCurrent, v4000) ROW(cuCtxPushCurrent, v4000) \
  ROW(cuCtxPopCurrent, v4000) ROW(cuCtxGetDevice, v2000) ROW(cuCtxSynchronize, v2000) \
  ROW(cuCtxEnablePeerAccess, v4000) \
  ROW(cuMemAlloc, v3020) ROW(cuMemAllocPitch, v3020) ROW(cuMemFree, v3020) \
  ROW(cuMemGetInfo, v3020) ROW(cuMemGetAddressRange, v3020) ROW(cuPointerGetAttribute, v4000) \
  ROW(cuPointerGetAttributes, v7000) ROW(cuMemHostAlloc, v2020) ROW(cuMemFreeHost, v2000) \
  ROW(cuMemAllocAsync, v11020) ROW(cuMemAllocFromPoolAsync, v11020) ROW(cuMemFreeAsync, v11020) \
  ROW(cuMemPoolCreate, v11020) ROW(cuMemPoolDestroy, v11020) ROW(cuMemPoolTrimTo, v11020) \
  ROW(cuMemPoolSetAttribute, v11020) ROW(cuMemPoolGetAttribute, v11020) \
  ROW(cuMemPoolSetAccess, v11020) ROW(cuDeviceGetDefaultMemPool, v11020) \
  ROW(cuDeviceGetMemPool, v11020) ROW(cuDeviceSetMemPool, v11020) \
  ROW(cuMemAddressReserve, v10020) ROW(cuMemAddressFree, v10020) ROW(cuMemCreate, v10020) \
  ROW(cuMemRelease, v10020) ROW(cuMemMap, v10020) ROW(cuMemUnmap, v10020) \
  ROW(cuMemSetAccess, v10020) ROW(cuMemGetAccess, v10020) \
  ROW(cuMemRetainAllocationHandle, v11000) ROW(cuMemGetAllocationPropertiesFromHandle, v10020) \
  ROW(cuMemExportToShareableHandle, v10020) \
  ROW(cuIpcGetMemHandle, v4010) ROW(cuIpcOpenMemHandle, v11000) ROW(cuIpcCloseMemHandle, v4010) \
  ROW(cuMemcpy, v4000) ROW(cuMemcpyPeer, v4000) ROW(cuMemcpyHtoD, v3020) \
  ROW(cuMemcpyDtoH, v3020) ROW(cuMemcpyDtoD, v3020) ROW(cuMemcpy2D, v3020) \
  ROW(cuMemcpy2DUnaligned, v3020) ROW(cuMemcpy3D, v3020) \
  ROW(cuMemcpyAsync, v4000) ROW(cuMemcpyPeerAsync, v4000) ROW(cuMemcpyHtoDAsync, v3020) \
  ROW(cuMemcpyDtoHAsync, v3020) ROW(cuMemcpyDtoDAsync, v3020) ROW(cuMemcpy2DAsync, v3020) \
  ROW(cuMemcpy3DAsync, v3020) ROW(cuMemcpy3DPeerAsync, v4000) \
  ROW(cuMemsetD8, v3020) ROW(cuMemsetD16, v3020) ROW(cuMemsetD32, v3020) \
  ROW(cuMemsetD8Async, v3020) ROW(cuMemsetD16Async, v3020) ROW(cuMemsetD32Async, v3020) \
  ROW(cuMemsetD2D8Async, v3020) ROW(cuMemsetD2D32Async, v3020) \
  ROW(cuStreamWriteValue64, v9000) ROW(cuStreamWaitValue64, v9000) \
  ROW(cuStreamCreate, v2000) ROW(cuStreamCreateWithPriority, v5050) ROW(cuStreamDestroy, v4000) \
  ROW(cuStreamSynchronize, v2000) ROW(cuStreamQuery, v2000) ROW(cuStreamWaitEvent, v3020) \
  ROW(cuStreamGetFlags, v5050) ROW(cuStreamGetCtx, v9020) ROW(cuStreamGetPriority, v5050) \
  ROW(cuStreamIsCapturing, v10000) ROW(cuStreamBeginCapture, v10010) \
  ROW(cuStreamEndCapture, v10000) ROW(cuLaunchHostFunc, v10000) \
  ROW(cuEventCreate, v2000) ROW(cuEventRecord, v2000) ROW(cuEventQuery, v2000) \
  ROW(cuEventSynchronize, v2000) ROW(cuEventDestroy, v4000) \
  ROW(cuModuleLoadData, v2000) ROW(cuModuleGetFunction, v2000) ROW(cuModuleUnload, v2000) \
  ROW(cuLaunchKernel, v4000) \
  ROW(cuGraphCreate, v10000) ROW(cuGraphAddKernelNode, v12000) ROW(cuGraphDestroy, v10000) \
  ROW(cuGraphAddMemsetNode, v10000) ROW(cuGraphAddMemcpyNode, v10000) \
  ROW(cuGraphExecMemcpyNodeSetParams, v10020) ROW(cuGraphExecMemsetNodeSetParams, v10020) \
  ROW(cuGraphInstantiateWithFlags, v11040) ROW(cuGraphLaunch, v10000) ROW(cuGraphUpload, v11010) \
  ROW(cuGraphExecUpdate, v12000) ROW(cuGraphExecKernelNodeSetParams, v12000) \
  ROW(cuGraphExecDestroy, v10000)
// clang-format on

namespace fuzz {

struct DriverCalls {
#define ROW(call, version) PFN_##call##_##version f_##call = nullptr;
  FUZZ_CALLS(ROW)
#undef ROW
  // Newer versions of it have other parameters.
  PFN_cuCtxCreate_v3020 f_cuCtxCreate = nullptr;
};
extern DriverCalls driver;

/// Looks the calls up as CUDA's runtime does. A simulated driver may lack some, which stay null.
/// Returns false without a driver.
bool find_driver(bool per_thread);

}  // namespace fuzz
