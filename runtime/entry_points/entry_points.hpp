#pragma once

#include "entry_points/newer_types.hpp"

#include <cuda.h>
#include <cudaTypedefs.h>

#include <cstddef>
#include <string_view>

// Rows name symbols of the library, not what the header's macros make of them.
#undef cuCtxCreate
#undef cuCtxDestroy
#undef cuCtxPushCurrent
#undef cuGetProcAddress
#undef cuMemBatchDecompressAsync
#undef cuFabricCpyBatchAsync
#undef cuGraphAddNode
#undef cuGraphExecKernelNodeSetParams
#undef cuGraphExecUpdate
#undef cuGraphInstantiate
#undef cuGraphInstantiateWithParams
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxReset
#undef cuDevicePrimaryCtxSetFlags
#undef cuCtxSynchronize
#undef cuLaunchHostFunc_v2
#undef cuMemcpy3DBatchAsync
#undef cuMemcpy3DWithAttributesAsync
#undef cuMemcpyWithAttributesAsync
#undef cuMemcpyBatchAsync
#undef cuDeviceGetUuid
#undef cuIpcOpenMemHandle
#undef cuStreamBatchMemOp
#undef cuStreamBeginCapture
#undef cuStreamBeginRecaptureToGraph
#undef cuStreamDestroy
#undef cuStreamWaitValue32
#undef cuStreamWaitValue64
#undef cuStreamWriteValue32
#undef cuStreamWriteValue64

// Types that the header lacks.
using FirstBeginCapture = CUresult (*)(CUstream);
using InstantiateWithLog = CUresult (*)(CUgraphExec*, CUgraph, CUgraphNode*, char*, size_t);

// The entry points that `vmart run` interposes, and those of them that the library guards: the
// exact symbol, and its type. Everything else passes
// straight to the driver. clang-format would repack the rows.
// clang-format off

// Calls that enqueue work on the stream among their arguments; without one, on the legacy stream or
// on that of the thread.
#define VMART_RUN_ENQUEUES_OF(ROW, suffix, version)                                  \
  ROW(cuMemcpyAsync##suffix, PFN_cuMemcpyAsync_##version##suffix)                    \
  ROW(cuMemcpyPeerAsync##suffix, PFN_cuMemcpyPeerAsync_##version##suffix)            \
  ROW(cuMemcpy3DPeerAsync##suffix, PFN_cuMemcpy3DPeerAsync_##version##suffix)

// Known to the newest headers only.
#if CUDA_VERSION >= 12080
#define VMART_RUN_ENQUEUES_12080(ROW) \
  ROW(cuMemcpyBatchAsync, PFN_cuMemcpyBatchAsync_v12080) \
  ROW(cuMemcpyBatchAsync_ptsz, PFN_cuMemcpyBatchAsync_v12080_ptsz) \
  ROW(cuMemcpy3DBatchAsync, PFN_cuMemcpy3DBatchAsync_v12080) \
  ROW(cuMemcpy3DBatchAsync_ptsz, PFN_cuMemcpy3DBatchAsync_v12080_ptsz) \
  ROW(cuMemcpyWithAttributesAsync, vma::MemcpyWithAttributes) \
  ROW(cuMemcpyWithAttributesAsync_ptsz, vma::MemcpyWithAttributes) \
  ROW(cuMemcpy3DWithAttributesAsync, vma::Memcpy3DWithAttributes) \
  ROW(cuMemcpy3DWithAttributesAsync_ptsz, vma::Memcpy3DWithAttributes)
#else
#define VMART_RUN_ENQUEUES_12080(ROW)
#endif
#if CUDA_VERSION >= 12060
#define VMART_RUN_ENQUEUES_12060(ROW) \
  ROW(cuMemBatchDecompressAsync, PFN_cuMemBatchDecompressAsync_v12060) \
  ROW(cuMemBatchDecompressAsync_ptsz, PFN_cuMemBatchDecompressAsync_v12060_ptsz)
#else
#define VMART_RUN_ENQUEUES_12060(ROW)
#endif
#if CUDA_VERSION >= 13000
#define VMART_RUN_NEW_ENQUEUES(ROW) \
  VMART_RUN_ENQUEUES_12060(ROW) \
  VMART_RUN_ENQUEUES_12080(ROW) \
  ROW(cuMemcpyBatchAsync_v2, PFN_cuMemcpyBatchAsync_v13000) \
  ROW(cuMemcpyBatchAsync_v2_ptsz, PFN_cuMemcpyBatchAsync_v13000_ptsz) \
  ROW(cuMemcpy3DBatchAsync_v2, PFN_cuMemcpy3DBatchAsync_v13000) \
  ROW(cuMemcpy3DBatchAsync_v2_ptsz, PFN_cuMemcpy3DBatchAsync_v13000_ptsz)
#else
#define VMART_RUN_NEW_ENQUEUES(ROW) VMART_RUN_ENQUEUES_12060(ROW) VMART_RUN_ENQUEUES_12080(ROW)
#endif

#define VMART_RUN_ENQUEUES(ROW)                                                      \
  VMART_RUN_ENQUEUES_OF(ROW, , v4000)                                                \
  VMART_RUN_ENQUEUES_OF(ROW, _ptsz, v7000)                                           \
  ROW(cuMemcpyHtoDAsync_v2, PFN_cuMemcpyHtoDAsync_v3020)                             \
  ROW(cuMemcpyHtoDAsync_v2_ptsz, PFN_cuMemcpyHtoDAsync_v7000_ptsz)                   \
  ROW(cuMemcpyDtoHAsync_v2, PFN_cuMemcpyDtoHAsync_v3020)                             \
  ROW(cuMemcpyDtoHAsync_v2_ptsz, PFN_cuMemcpyDtoHAsync_v7000_ptsz)                   \
  ROW(cuMemcpyDtoDAsync_v2, PFN_cuMemcpyDtoDAsync_v3020)                             \
  ROW(cuMemcpyDtoDAsync_v2_ptsz, PFN_cuMemcpyDtoDAsync_v7000_ptsz)                   \
  ROW(cuMemcpyHtoAAsync_v2, PFN_cuMemcpyHtoAAsync_v3020)                             \
  ROW(cuMemcpyHtoAAsync_v2_ptsz, PFN_cuMemcpyHtoAAsync_v7000_ptsz)                   \
  ROW(cuMemcpyAtoHAsync_v2, PFN_cuMemcpyAtoHAsync_v3020)                             \
  ROW(cuMemcpyAtoHAsync_v2_ptsz, PFN_cuMemcpyAtoHAsync_v7000_ptsz)                   \
  ROW(cuMemcpy2DAsync_v2, PFN_cuMemcpy2DAsync_v3020)                                 \
  ROW(cuMemcpy2DAsync_v2_ptsz, PFN_cuMemcpy2DAsync_v7000_ptsz)                       \
  ROW(cuMemcpy3DAsync_v2, PFN_cuMemcpy3DAsync_v3020)                                 \
  ROW(cuMemcpy3DAsync_v2_ptsz, PFN_cuMemcpy3DAsync_v7000_ptsz)                       \
  ROW(cuMemsetD8Async, PFN_cuMemsetD8Async_v3020)                                    \
  ROW(cuMemsetD8Async_ptsz, PFN_cuMemsetD8Async_v7000_ptsz)                          \
  ROW(cuMemsetD16Async, PFN_cuMemsetD16Async_v3020)                                  \
  ROW(cuMemsetD16Async_ptsz, PFN_cuMemsetD16Async_v7000_ptsz)                        \
  ROW(cuMemsetD32Async, PFN_cuMemsetD32Async_v3020)                                  \
  ROW(cuMemsetD32Async_ptsz, PFN_cuMemsetD32Async_v7000_ptsz)                        \
  ROW(cuMemsetD2D8Async, PFN_cuMemsetD2D8Async_v3020)                                \
  ROW(cuMemsetD2D8Async_ptsz, PFN_cuMemsetD2D8Async_v7000_ptsz)                      \
  ROW(cuMemsetD2D16Async, PFN_cuMemsetD2D16Async_v3020)                              \
  ROW(cuMemsetD2D16Async_ptsz, PFN_cuMemsetD2D16Async_v7000_ptsz)                    \
  ROW(cuMemsetD2D32Async, PFN_cuMemsetD2D32Async_v3020)                              \
  ROW(cuMemsetD2D32Async_ptsz, PFN_cuMemsetD2D32Async_v7000_ptsz)                    \
  ROW(cuMemcpyHtoD_v2, PFN_cuMemcpyHtoD_v3020) \
  ROW(cuMemcpyHtoD_v2_ptds, PFN_cuMemcpyHtoD_v7000_ptds) \
  ROW(cuMemcpyDtoH_v2, PFN_cuMemcpyDtoH_v3020) \
  ROW(cuMemcpyDtoH_v2_ptds, PFN_cuMemcpyDtoH_v7000_ptds) \
  ROW(cuMemcpyDtoD_v2, PFN_cuMemcpyDtoD_v3020) \
  ROW(cuMemcpyDtoD_v2_ptds, PFN_cuMemcpyDtoD_v7000_ptds) \
  ROW(cuMemcpyDtoA_v2, PFN_cuMemcpyDtoA_v3020) \
  ROW(cuMemcpyDtoA_v2_ptds, PFN_cuMemcpyDtoA_v7000_ptds) \
  ROW(cuMemcpyAtoD_v2, PFN_cuMemcpyAtoD_v3020) \
  ROW(cuMemcpyAtoD_v2_ptds, PFN_cuMemcpyAtoD_v7000_ptds) \
  ROW(cuMemcpyHtoA_v2, PFN_cuMemcpyHtoA_v3020) \
  ROW(cuMemcpyHtoA_v2_ptds, PFN_cuMemcpyHtoA_v7000_ptds) \
  ROW(cuMemcpyAtoH_v2, PFN_cuMemcpyAtoH_v3020) \
  ROW(cuMemcpyAtoH_v2_ptds, PFN_cuMemcpyAtoH_v7000_ptds) \
  ROW(cuMemcpyAtoA_v2, PFN_cuMemcpyAtoA_v3020) \
  ROW(cuMemcpyAtoA_v2_ptds, PFN_cuMemcpyAtoA_v7000_ptds) \
  ROW(cuMemcpy2D_v2, PFN_cuMemcpy2D_v3020) \
  ROW(cuMemcpy2D_v2_ptds, PFN_cuMemcpy2D_v7000_ptds) \
  ROW(cuMemcpy2DUnaligned_v2, PFN_cuMemcpy2DUnaligned_v3020) \
  ROW(cuMemcpy2DUnaligned_v2_ptds, PFN_cuMemcpy2DUnaligned_v7000_ptds) \
  ROW(cuMemcpy3D_v2, PFN_cuMemcpy3D_v3020) \
  ROW(cuMemcpy3D_v2_ptds, PFN_cuMemcpy3D_v7000_ptds) \
  ROW(cuMemcpy, PFN_cuMemcpy_v4000) \
  ROW(cuMemcpy_ptds, PFN_cuMemcpy_v7000_ptds) \
  ROW(cuMemcpyPeer, PFN_cuMemcpyPeer_v4000) \
  ROW(cuMemcpyPeer_ptds, PFN_cuMemcpyPeer_v7000_ptds) \
  ROW(cuMemcpy3DPeer, PFN_cuMemcpy3DPeer_v4000) \
  ROW(cuMemcpy3DPeer_ptds, PFN_cuMemcpy3DPeer_v7000_ptds) \
  ROW(cuMemsetD8_v2, PFN_cuMemsetD8_v3020) \
  ROW(cuMemsetD8_v2_ptds, PFN_cuMemsetD8_v7000_ptds) \
  ROW(cuMemsetD16_v2, PFN_cuMemsetD16_v3020) \
  ROW(cuMemsetD16_v2_ptds, PFN_cuMemsetD16_v7000_ptds) \
  ROW(cuMemsetD32_v2, PFN_cuMemsetD32_v3020) \
  ROW(cuMemsetD32_v2_ptds, PFN_cuMemsetD32_v7000_ptds) \
  ROW(cuMemsetD2D8_v2, PFN_cuMemsetD2D8_v3020) \
  ROW(cuMemsetD2D8_v2_ptds, PFN_cuMemsetD2D8_v7000_ptds) \
  ROW(cuMemsetD2D16_v2, PFN_cuMemsetD2D16_v3020) \
  ROW(cuMemsetD2D16_v2_ptds, PFN_cuMemsetD2D16_v7000_ptds) \
  ROW(cuMemsetD2D32_v2, PFN_cuMemsetD2D32_v3020) \
  ROW(cuMemsetD2D32_v2_ptds, PFN_cuMemsetD2D32_v7000_ptds) \
  ROW(cuStreamWaitValue32, PFN_cuStreamWaitValue32_v8000) \
  ROW(cuStreamWaitValue32_ptsz, PFN_cuStreamWaitValue32_v8000_ptsz) \
  ROW(cuStreamWaitValue64, PFN_cuStreamWaitValue64_v9000) \
  ROW(cuStreamWaitValue64_ptsz, PFN_cuStreamWaitValue64_v9000_ptsz) \
  ROW(cuStreamWriteValue32, PFN_cuStreamWriteValue32_v8000) \
  ROW(cuStreamWriteValue32_ptsz, PFN_cuStreamWriteValue32_v8000_ptsz) \
  ROW(cuStreamWriteValue64, PFN_cuStreamWriteValue64_v9000) \
  ROW(cuStreamWriteValue64_ptsz, PFN_cuStreamWriteValue64_v9000_ptsz) \
  ROW(cuStreamBatchMemOp, PFN_cuStreamBatchMemOp_v8000) \
  ROW(cuStreamBatchMemOp_ptsz, PFN_cuStreamBatchMemOp_v8000_ptsz) \
  ROW(cuStreamWaitValue32_v2, PFN_cuStreamWaitValue32_v11070) \
  ROW(cuStreamWaitValue32_v2_ptsz, PFN_cuStreamWaitValue32_v11070_ptsz) \
  ROW(cuStreamWaitValue64_v2, PFN_cuStreamWaitValue64_v11070) \
  ROW(cuStreamWaitValue64_v2_ptsz, PFN_cuStreamWaitValue64_v11070_ptsz) \
  ROW(cuStreamWaitEvent, PFN_cuStreamWaitEvent_v3020) \
  ROW(cuStreamWaitEvent_ptsz, PFN_cuStreamWaitEvent_v7000_ptsz) \
  ROW(cuStreamBatchMemOp_v2, PFN_cuStreamBatchMemOp_v11070)                          \
  ROW(cuStreamBatchMemOp_v2_ptsz, PFN_cuStreamBatchMemOp_v11070_ptsz)                \
  ROW(cuStreamWriteValue32_v2, PFN_cuStreamWriteValue32_v11070)                      \
  ROW(cuStreamWriteValue32_v2_ptsz, PFN_cuStreamWriteValue32_v11070_ptsz)            \
  ROW(cuStreamWriteValue64_v2, PFN_cuStreamWriteValue64_v11070)                      \
  ROW(cuStreamWriteValue64_v2_ptsz, PFN_cuStreamWriteValue64_v11070_ptsz)            \
  ROW(cuLaunch, PFN_cuLaunch_v2000)                                                  \
  ROW(cuLaunchGrid, PFN_cuLaunchGrid_v2000)                                          \
  ROW(cuLaunchGridAsync, PFN_cuLaunchGridAsync_v2000)                                \
  ROW(cuLaunchKernel, PFN_cuLaunchKernel_v4000)                                      \
  ROW(cuLaunchKernel_ptsz, PFN_cuLaunchKernel_v7000_ptsz)                            \
  ROW(cuLaunchCooperativeKernel, PFN_cuLaunchCooperativeKernel_v9000)                \
  ROW(cuLaunchCooperativeKernel_ptsz, PFN_cuLaunchCooperativeKernel_v9000_ptsz)      \
  ROW(cuLaunchHostFunc, PFN_cuLaunchHostFunc_v10000)                                 \
  ROW(cuLaunchHostFunc_ptsz, PFN_cuLaunchHostFunc_v10000_ptsz)                       \
  ROW(cuLaunchHostFunc_v2, vma::LaunchHostFuncWithMode)                   \
  ROW(cuLaunchHostFunc_v2_ptsz, vma::LaunchHostFuncWithMode)              \
  ROW(cuGraphUpload, PFN_cuGraphUpload_v11010)                                       \
  ROW(cuGraphUpload_ptsz, PFN_cuGraphUpload_v11010_ptsz)                             \
  ROW(cuStreamAddCallback, PFN_cuStreamAddCallback_v5000) \
  ROW(cuStreamAddCallback_ptsz, PFN_cuStreamAddCallback_v7000_ptsz) \
  ROW(cuStreamBeginCapture, FirstBeginCapture) \
  ROW(cuStreamBeginCapture_ptsz, FirstBeginCapture) \
  VMART_RUN_NEW_ENQUEUES(ROW) \
  ROW(cuStreamBeginCapture_v2, PFN_cuStreamBeginCapture_v10010)                      \
  ROW(cuStreamBeginCapture_v2_ptsz, PFN_cuStreamBeginCapture_v10010_ptsz)            \
  ROW(cuStreamBeginCaptureToGraph, PFN_cuStreamBeginCaptureToGraph_v12030)           \
  ROW(cuStreamBeginCaptureToGraph_ptsz, PFN_cuStreamBeginCaptureToGraph_v12030_ptsz) \
  ROW(cuStreamBeginRecaptureToGraph, vma::BeginRecapture)                 \
  ROW(cuStreamBeginRecaptureToGraph_ptsz, vma::BeginRecapture)            \
  ROW(cuFabricCpyBatchAsync, vma::FabricCopyBatch)                        \
  ROW(cuFabricCpyBatchAsync_ptsz, vma::FabricCopyBatch)

// Calls that look memory up and enqueue nothing.
#define VMART_RUN_LOOKUPS(ROW)                                                       \
  ROW(cuGraphAddMemcpyNode, PFN_cuGraphAddMemcpyNode_v10000)                         \
  ROW(cuGraphAddMemsetNode, PFN_cuGraphAddMemsetNode_v10000)                         \
  ROW(cuGraphAddNode, PFN_cuGraphAddNode_v12020)                                     \
  ROW(cuGraphAddNode_v2, PFN_cuGraphAddNode_v12030)                                  \
  ROW(cuGraphAddNode_v3, vma::AddNodeOfUnion)                             \
  ROW(cuGraphAddBatchMemOpNode, PFN_cuGraphAddBatchMemOpNode_v11070)                 \
  ROW(cuGraphBatchMemOpNodeSetParams, PFN_cuGraphBatchMemOpNodeSetParams_v11070)     \
  ROW(cuGraphExecBatchMemOpNodeSetParams, PFN_cuGraphExecBatchMemOpNodeSetParams_v11070) \
  ROW(cuGraphMemcpyNodeSetParams, PFN_cuGraphMemcpyNodeSetParams_v10000)             \
  ROW(cuGraphMemsetNodeSetParams, PFN_cuGraphMemsetNodeSetParams_v10000)             \
  ROW(cuGraphNodeSetParams, PFN_cuGraphNodeSetParams_v12020)                         \
  ROW(cuGraphNodeSetParams_v2, vma::SetNodeOfUnion)                       \
  ROW(cuTexRefSetAddress_v2, PFN_cuTexRefSetAddress_v3020)                           \
  ROW(cuTexRefSetAddress2D_v3, PFN_cuTexRefSetAddress2D_v4010)                       \
  ROW(cuTexObjectCreate, PFN_cuTexObjectCreate_v5000)                                \
  ROW(cuStreamEndCapture, PFN_cuStreamEndCapture_v10000)                             \
  ROW(cuStreamEndCapture_ptsz, PFN_cuStreamEndCapture_v10000_ptsz)                   \
  ROW(cuStreamEndCaptureToCig, vma::EndCaptureToCig)                      \
  ROW(cuStreamEndCaptureToCig_ptsz, vma::EndCaptureToCig)

// Calls that take memory of the driver's own.
#define VMART_RUN_ROOM_CALLS(ROW)                                                    \
  ROW(cuArrayCreate_v2, PFN_cuArrayCreate_v3020)                                     \
  ROW(cuArray3DCreate_v2, PFN_cuArray3DCreate_v3020)                                 \
  ROW(cuMipmappedArrayCreate, PFN_cuMipmappedArrayCreate_v5000)                      \
  ROW(cuModuleLoad, PFN_cuModuleLoad_v2000)                                          \
  ROW(cuModuleLoadData, PFN_cuModuleLoadData_v2000)                                  \
  ROW(cuModuleLoadDataEx, PFN_cuModuleLoadDataEx_v2010)                              \
  ROW(cuModuleLoadFatBinary, PFN_cuModuleLoadFatBinary_v2000)                        \
  ROW(cuLibraryLoadData, PFN_cuLibraryLoadData_v12000)                               \
  ROW(cuLibraryLoadFromFile, PFN_cuLibraryLoadFromFile_v12000)

// Calls with a hook of their own, by the file that has it.
#define VMART_RUN_RESOLVING_HOOKS(ROW)                                               \
  ROW(cuGetProcAddress, PFN_cuGetProcAddress_v11030)                                 \
  ROW(cuGetProcAddress_v2, PFN_cuGetProcAddress_v12000)

#define VMART_RUN_MEMORY_HOOKS(ROW)                                                  \
  ROW(cuMemAlloc_v2, PFN_cuMemAlloc_v3020)                                           \
  ROW(cuMemAllocPitch_v2, PFN_cuMemAllocPitch_v3020)                                 \
  ROW(cuMemFree_v2, PFN_cuMemFree_v3020)                                             \
  ROW(cuMemGetInfo_v2, PFN_cuMemGetInfo_v3020)                                       \
  ROW(cuMemGetAddressRange_v2, PFN_cuMemGetAddressRange_v3020)                       \
  ROW(cuPointerGetAttribute, PFN_cuPointerGetAttribute_v4000)                        \
  ROW(cuPointerGetAttributes, PFN_cuPointerGetAttributes_v7000)                      \
  ROW(cuPointerSetAttribute, PFN_cuPointerSetAttribute_v6000)                        \
  ROW(cuMemGetHandleForAddressRange, PFN_cuMemGetHandleForAddressRange_v11070)       \
  ROW(cuIpcGetMemHandle, PFN_cuIpcGetMemHandle_v4010)                                \
  ROW(cuIpcOpenMemHandle, PFN_cuIpcOpenMemHandle_v11000)                              \
  ROW(cuIpcOpenMemHandle_v2, PFN_cuIpcOpenMemHandle_v11000)                          \
  ROW(cuIpcCloseMemHandle, PFN_cuIpcCloseMemHandle_v4010)

#define VMART_RUN_POOL_HOOKS(ROW)                                                    \
  ROW(cuMemAllocAsync, PFN_cuMemAllocAsync_v11020)                                   \
  ROW(cuMemAllocAsync_ptsz, PFN_cuMemAllocAsync_v11020_ptsz)                         \
  ROW(cuMemAllocFromPoolAsync, PFN_cuMemAllocFromPoolAsync_v11020)                   \
  ROW(cuMemAllocFromPoolAsync_ptsz, PFN_cuMemAllocFromPoolAsync_v11020_ptsz)         \
  ROW(cuMemFreeAsync, PFN_cuMemFreeAsync_v11020)                                     \
  ROW(cuMemFreeAsync_ptsz, PFN_cuMemFreeAsync_v11020_ptsz)                           \
  ROW(cuMemPoolCreate, PFN_cuMemPoolCreate_v11020)                                   \
  ROW(cuMemPoolDestroy, PFN_cuMemPoolDestroy_v11020)                                 \
  ROW(cuMemPoolTrimTo, PFN_cuMemPoolTrimTo_v11020)                                   \
  ROW(cuMemPoolSetAttribute, PFN_cuMemPoolSetAttribute_v11020)                       \
  ROW(cuMemPoolGetAttribute, PFN_cuMemPoolGetAttribute_v11020)

#if CUDA_VERSION >= 13000
#define VMART_RUN_NEW_WAIT_HOOKS(ROW) ROW(cuCtxSynchronize_v2, PFN_cuCtxSynchronize_v13000)
#else
#define VMART_RUN_NEW_WAIT_HOOKS(ROW)
#endif
#define VMART_RUN_WAIT_HOOKS(ROW)                                                    \
  ROW(cuStreamSynchronize, PFN_cuStreamSynchronize_v2000)                            \
  ROW(cuStreamSynchronize_ptsz, PFN_cuStreamSynchronize_v7000_ptsz)                  \
  ROW(cuStreamQuery, PFN_cuStreamQuery_v2000)                                        \
  ROW(cuStreamQuery_ptsz, PFN_cuStreamQuery_v7000_ptsz)                              \
  ROW(cuEventSynchronize, PFN_cuEventSynchronize_v2000)                              \
  VMART_RUN_NEW_WAIT_HOOKS(ROW)                                                      \
  ROW(cuCtxSynchronize, PFN_cuCtxSynchronize_v2000)

#define VMART_RUN_MAPPING_HOOKS(ROW)                                                 \
  ROW(cuMemAddressFree, PFN_cuMemAddressFree_v10020)                                 \
  ROW(cuMemCreate, PFN_cuMemCreate_v10020)                                           \
  ROW(cuMemRelease, PFN_cuMemRelease_v10020)                                         \
  ROW(cuMemMap, PFN_cuMemMap_v10020)                                                 \
  ROW(cuMemUnmap, PFN_cuMemUnmap_v10020)                                             \
  ROW(cuMemSetAccess, PFN_cuMemSetAccess_v10020)                                     \
  ROW(cuMemGetAccess, PFN_cuMemGetAccess_v10020)                                     \
  ROW(cuMemRetainAllocationHandle, PFN_cuMemRetainAllocationHandle_v11000)           \
  ROW(cuMemGetAllocationPropertiesFromHandle,                                        \
      PFN_cuMemGetAllocationPropertiesFromHandle_v10020)                             \
  ROW(cuMemExportToShareableHandle, PFN_cuMemExportToShareableHandle_v10020)         \
  ROW(cuMulticastBindMem, PFN_cuMulticastBindMem_v12010)                             \
  ROW(cuMulticastBindMem_v2, vma::MulticastBindMemOfDevice)               \
  ROW(cuMulticastBindAddr, PFN_cuMulticastBindAddr_v12010)                           \
  ROW(cuMulticastBindAddr_v2, vma::MulticastBindAddrOfDevice)             \
  ROW(cuLogicalEndpointBindMem, vma::LogicalEndpointBindMem)              \
  ROW(cuLogicalEndpointBindAddr, vma::LogicalEndpointBindAddr)

#define VMART_RUN_CONTEXT_HOOKS(ROW)                                                 \
  ROW(cuStreamCreate, PFN_cuStreamCreate_v2000)                                      \
  ROW(cuStreamCreateWithPriority, PFN_cuStreamCreateWithPriority_v5050)              \
  ROW(cuGreenCtxStreamCreate, PFN_cuGreenCtxStreamCreate_v12050)                     \
  ROW(cuStreamDestroy, PFN_cuStreamDestroy_v4000) \
  ROW(cuStreamDestroy_v2, PFN_cuStreamDestroy_v4000) \
  ROW(cuGreenCtxCreate, PFN_cuGreenCtxCreate_v12040)                                 \
  ROW(cuGreenCtxDestroy, PFN_cuGreenCtxDestroy_v12040)                               \
  ROW(cuCtxCreate, PFN_cuCtxCreate_v3020)                                            \
  ROW(cuCtxDestroy, PFN_cuCtxDestroy_v4000)                                          \
  ROW(cuCtxPushCurrent, PFN_cuCtxPushCurrent_v4000)                                  \
  ROW(cuCtxSetFlags, PFN_cuCtxSetFlags_v12010)                                       \
  ROW(cuDevicePrimaryCtxRetain, PFN_cuDevicePrimaryCtxRetain_v7000)                  \
  ROW(cuDevicePrimaryCtxSetFlags, PFN_cuDevicePrimaryCtxSetFlags_v11000)             \
  ROW(cuDevicePrimaryCtxSetFlags_v2, PFN_cuDevicePrimaryCtxSetFlags_v11000)          \
  ROW(cuDevicePrimaryCtxRelease, PFN_cuDevicePrimaryCtxRelease_v11000)               \
  ROW(cuDevicePrimaryCtxRelease_v2, PFN_cuDevicePrimaryCtxRelease_v11000)            \
  ROW(cuCtxCreate_v2, PFN_cuCtxCreate_v3020)                                         \
  ROW(cuCtxCreate_v3, PFN_cuCtxCreate_v11040)                                        \
  ROW(cuCtxCreate_v4, PFN_cuCtxCreate_v12050)                                        \
  ROW(cuCtxDestroy_v2, PFN_cuCtxDestroy_v4000)                                       \
  ROW(cuCtxSetCurrent, PFN_cuCtxSetCurrent_v4000)                                    \
  ROW(cuCtxPushCurrent_v2, PFN_cuCtxPushCurrent_v4000)                               \
  ROW(cuDevicePrimaryCtxReset, PFN_cuDevicePrimaryCtxReset_v11000)                   \
  ROW(cuDevicePrimaryCtxReset_v2, PFN_cuDevicePrimaryCtxReset_v11000)

#define VMART_RUN_LAUNCH_HOOKS(ROW)                                                  \
  ROW(cuLaunchKernelEx, PFN_cuLaunchKernelEx_v11060)                                 \
  ROW(cuLaunchKernelEx_ptsz, PFN_cuLaunchKernelEx_v11060_ptsz)                       \
  ROW(cuLaunchCooperativeKernelMultiDevice, PFN_cuLaunchCooperativeKernelMultiDevice_v9000) \
  ROW(cuModuleUnload, PFN_cuModuleUnload_v2000)                                      \
  ROW(cuLibraryUnload, PFN_cuLibraryUnload_v12000)

#define VMART_RUN_GRAPH_HOOKS(ROW)                                                   \
  ROW(cuGraphInstantiate, InstantiateWithLog)                                        \
  ROW(cuGraphInstantiate_v2, InstantiateWithLog)                                     \
  ROW(cuGraphInstantiateWithFlags, PFN_cuGraphInstantiateWithFlags_v11040)           \
  ROW(cuGraphInstantiateWithParams, PFN_cuGraphInstantiateWithParams_v12000)         \
  ROW(cuGraphInstantiateWithParams_ptsz, PFN_cuGraphInstantiateWithParams_v12000_ptsz) \
  ROW(cuGraphLaunch, PFN_cuGraphLaunch_v10000)                                       \
  ROW(cuGraphLaunch_ptsz, PFN_cuGraphLaunch_v10000_ptsz)                             \
  ROW(cuGraphExecDestroy, PFN_cuGraphExecDestroy_v10000)                             \
  ROW(cuGraphExecUpdate, PFN_cuGraphExecUpdate_v10020)                               \
  ROW(cuGraphExecUpdate_v2, PFN_cuGraphExecUpdate_v12000)                            \
  ROW(cuGraphExecKernelNodeSetParams, PFN_cuGraphExecKernelNodeSetParams_v10010)     \
  ROW(cuGraphExecKernelNodeSetParams_v2, PFN_cuGraphExecKernelNodeSetParams_v12000)  \
  ROW(cuGraphExecMemcpyNodeSetParams, PFN_cuGraphExecMemcpyNodeSetParams_v10020)     \
  ROW(cuGraphExecMemsetNodeSetParams, PFN_cuGraphExecMemsetNodeSetParams_v10020)     \
  ROW(cuGraphExecNodeSetParams, PFN_cuGraphExecNodeSetParams_v12020)                 \
  ROW(cuGraphExecChildGraphNodeSetParams, PFN_cuGraphExecChildGraphNodeSetParams_v11010) \
  ROW(cuGraphNodeSetEnabled, PFN_cuGraphNodeSetEnabled_v11060)

// Calls that the hooks make, and that have no hook. `DriverLibrary::real` has the others.
#define VMART_RUN_PLAIN_CALLS(ROW)                                                   \
  ROW(cuCtxGetCurrent, PFN_cuCtxGetCurrent_v4000)                                    \
  ROW(cuCtxGetDevice, PFN_cuCtxGetDevice_v2000)                                      \
  ROW(cuCtxPopCurrent_v2, PFN_cuCtxPopCurrent_v4000)                                 \
  ROW(cuDeviceGetCount, PFN_cuDeviceGetCount_v2000)                                  \
  ROW(cuDeviceGetMemPool, PFN_cuDeviceGetMemPool_v11020)                             \
  ROW(cuDeviceGetDefaultMemPool, PFN_cuDeviceGetDefaultMemPool_v11020)               \
  ROW(cuDevicePrimaryCtxGetState, PFN_cuDevicePrimaryCtxGetState_v7000)              \
  ROW(cuStreamIsCapturing, PFN_cuStreamIsCapturing_v10000)                           \
  ROW(cuStreamGetCtx, PFN_cuStreamGetCtx_v9020)                                      \
  ROW(cuThreadExchangeStreamCaptureMode, PFN_cuThreadExchangeStreamCaptureMode_v10010) \
  ROW(cuEventCreate, PFN_cuEventCreate_v2000)                                        \
  ROW(cuEventRecord, PFN_cuEventRecord_v2000)                                        \
  ROW(cuEventDestroy_v2, PFN_cuEventDestroy_v4000)

// The same; null if the driver is too old.
#define VMART_RUN_OPTIONAL_PLAIN_CALLS(ROW)                                          \
  ROW(cuDeviceCanAccessPeer, PFN_cuDeviceCanAccessPeer_v4000)                        \
  ROW(cuDeviceGetUuid_v2, PFN_cuDeviceGetUuid_v11040)                                \
  ROW(cuFuncGetName, PFN_cuFuncGetName_v12030)                                       \
  ROW(cuKernelGetName, PFN_cuKernelGetName_v12030)                                   \
  ROW(cuGraphChildGraphNodeGetGraph, PFN_cuGraphChildGraphNodeGetGraph_v10000)       \
  ROW(cuGraphGetNodes, PFN_cuGraphGetNodes_v10000)                                   \
  ROW(cuGraphMemcpyNodeGetParams, PFN_cuGraphMemcpyNodeGetParams_v10000)             \
  ROW(cuGraphMemsetNodeGetParams, PFN_cuGraphMemsetNodeGetParams_v10000)             \
  ROW(cuGraphNodeGetType, PFN_cuGraphNodeGetType_v10000)                             \
  ROW(cuMemAddressReserve, PFN_cuMemAddressReserve_v10020)                           \
  ROW(cuMemGetAllocationGranularity, PFN_cuMemGetAllocationGranularity_v10020)       \
  ROW(cuGraphKernelNodeGetParams_v2, PFN_cuGraphKernelNodeGetParams_v12000)          \
  ROW(cuCtxFromGreenCtx, PFN_cuCtxFromGreenCtx_v12040)
// clang-format on

#define VMART_RUN_HOOKS(ROW)     \
  VMART_RUN_RESOLVING_HOOKS(ROW) \
  VMART_RUN_MEMORY_HOOKS(ROW)    \
  VMART_RUN_POOL_HOOKS(ROW)      \
  VMART_RUN_WAIT_HOOKS(ROW)      \
  VMART_RUN_MAPPING_HOOKS(ROW)   \
  VMART_RUN_CONTEXT_HOOKS(ROW)   \
  VMART_RUN_LAUNCH_HOOKS(ROW)    \
  VMART_RUN_GRAPH_HOOKS(ROW)

#define VMART_RUN_ENTRY_POINTS(ROW) \
  VMART_RUN_HOOKS(ROW)              \
  VMART_RUN_ENQUEUES(ROW)           \
  VMART_RUN_LOOKUPS(ROW)            \
  VMART_RUN_ROOM_CALLS(ROW)

namespace vma {

/// One enumerator for each row.
enum class EntryPoint : int {
#define ROW(symbol, type) symbol,
  VMART_RUN_ENTRY_POINTS(ROW)
#undef ROW
      count
};

template <EntryPoint>
struct TypeOf;
#define ROW(symbol, type)             \
  template <>                         \
  struct TypeOf<EntryPoint::symbol> { \
    using Pointer = type;             \
  };
VMART_RUN_ENTRY_POINTS(ROW)
#undef ROW

constexpr std::string_view symbol_of(EntryPoint entry) noexcept {
  constexpr std::string_view names[] = {
#define ROW(symbol, type) #symbol,
      VMART_RUN_ENTRY_POINTS(ROW)
#undef ROW
  };
  return names[static_cast<std::size_t>(entry)];
}

/// Whether the call itself looks up the memory that it names, so that none may be dark meanwhile.
/// Launches look theirs up when they run.
constexpr bool looks_memory_up(EntryPoint entry) noexcept {
  constexpr std::string_view lookups[] = {
#define ROW(symbol, type) #symbol,
      VMART_RUN_LOOKUPS(ROW)
#undef ROW
          "cuMulticastBindAddr",
      "cuMulticastBindAddr_v2",
      "cuLogicalEndpointBindAddr",
      "cuGraphExecMemcpyNodeSetParams",
      "cuGraphExecMemsetNodeSetParams",
      "cuGraphExecNodeSetParams",
      "cuGraphExecChildGraphNodeSetParams",
      "cuMemGetAddressRange_v2",
      "cuMemGetAccess",
      "cuMemGetHandleForAddressRange",
      "cuMemRetainAllocationHandle"};
  constexpr std::string_view begins[] = {
      "cuMemcpy",           "cuMemset",           "cuStreamWaitValue",
      "cuStreamWriteValue", "cuStreamBatchMemOp", "cuFabricCpy",
      "cuGraphInstantiate", "cuGraphExecUpdate",  "cuMemBatchDecompress",
      "cuPointer"};
  for (const std::string_view begin : begins) {
    if (symbol_of(entry).starts_with(begin)) return true;
  }
  for (const std::string_view lookup : lookups) {
    if (symbol_of(entry) == lookup) return true;
  }
  return false;
}

}  // namespace vma
