#pragma once

#include "entry_points/newer_types.hpp"

#include <cuda.h>
#include <cudaTypedefs.h>

#include <array>
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
// exact symbol, its type, and what it does (`Does`). Everything else passes straight to the driver.
// clang-format would repack the rows.
// clang-format off

// Calls without a hook of their own: what they do says all (`GenericHook`).

// On the stream among their arguments; without one, on the legacy stream or on that of the thread.
#define VMART_RUN_ENQUEUES_OF(ROW, suffix, version)                                  \
  ROW(cuMemcpyAsync##suffix, PFN_cuMemcpyAsync_##version##suffix, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyPeerAsync##suffix, PFN_cuMemcpyPeerAsync_##version##suffix, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpy3DPeerAsync##suffix, PFN_cuMemcpy3DPeerAsync_##version##suffix, enqueues | looks_up | takes_room | copies)

// Known to the newest headers only.
#if CUDA_VERSION >= 12080
#define VMART_RUN_ENQUEUES_12080(ROW) \
  ROW(cuMemcpyBatchAsync, PFN_cuMemcpyBatchAsync_v12080, enqueues | looks_up | takes_room) \
  ROW(cuMemcpyBatchAsync_ptsz, PFN_cuMemcpyBatchAsync_v12080_ptsz, enqueues | looks_up | takes_room) \
  ROW(cuMemcpy3DBatchAsync, PFN_cuMemcpy3DBatchAsync_v12080, enqueues | looks_up | takes_room) \
  ROW(cuMemcpy3DBatchAsync_ptsz, PFN_cuMemcpy3DBatchAsync_v12080_ptsz, enqueues | looks_up | takes_room) \
  ROW(cuMemcpyWithAttributesAsync, vma::MemcpyWithAttributes, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyWithAttributesAsync_ptsz, vma::MemcpyWithAttributes, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpy3DWithAttributesAsync, vma::Memcpy3DWithAttributes, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpy3DWithAttributesAsync_ptsz, vma::Memcpy3DWithAttributes, enqueues | looks_up | takes_room | copies)
#else
#define VMART_RUN_ENQUEUES_12080(ROW)
#endif
#if CUDA_VERSION >= 12060
#define VMART_RUN_ENQUEUES_12060(ROW) \
  ROW(cuMemBatchDecompressAsync, PFN_cuMemBatchDecompressAsync_v12060, enqueues | looks_up | takes_room) \
  ROW(cuMemBatchDecompressAsync_ptsz, PFN_cuMemBatchDecompressAsync_v12060_ptsz, enqueues | looks_up | takes_room)
#else
#define VMART_RUN_ENQUEUES_12060(ROW)
#endif
#if CUDA_VERSION >= 13000
#define VMART_RUN_NEW_ENQUEUES(ROW) \
  VMART_RUN_ENQUEUES_12060(ROW) \
  VMART_RUN_ENQUEUES_12080(ROW) \
  ROW(cuMemcpyBatchAsync_v2, PFN_cuMemcpyBatchAsync_v13000, enqueues | looks_up | takes_room) \
  ROW(cuMemcpyBatchAsync_v2_ptsz, PFN_cuMemcpyBatchAsync_v13000_ptsz, enqueues | looks_up | takes_room) \
  ROW(cuMemcpy3DBatchAsync_v2, PFN_cuMemcpy3DBatchAsync_v13000, enqueues | looks_up | takes_room) \
  ROW(cuMemcpy3DBatchAsync_v2_ptsz, PFN_cuMemcpy3DBatchAsync_v13000_ptsz, enqueues | looks_up | takes_room)
#else
#define VMART_RUN_NEW_ENQUEUES(ROW) VMART_RUN_ENQUEUES_12060(ROW) VMART_RUN_ENQUEUES_12080(ROW)
#endif

#define VMART_RUN_ENQUEUES(ROW)                                                      \
  VMART_RUN_ENQUEUES_OF(ROW, , v4000)                                                \
  VMART_RUN_ENQUEUES_OF(ROW, _ptsz, v7000)                                           \
  ROW(cuMemcpyHtoDAsync_v2, PFN_cuMemcpyHtoDAsync_v3020, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyHtoDAsync_v2_ptsz, PFN_cuMemcpyHtoDAsync_v7000_ptsz, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyDtoHAsync_v2, PFN_cuMemcpyDtoHAsync_v3020, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyDtoHAsync_v2_ptsz, PFN_cuMemcpyDtoHAsync_v7000_ptsz, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyDtoDAsync_v2, PFN_cuMemcpyDtoDAsync_v3020, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyDtoDAsync_v2_ptsz, PFN_cuMemcpyDtoDAsync_v7000_ptsz, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyHtoAAsync_v2, PFN_cuMemcpyHtoAAsync_v3020, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyHtoAAsync_v2_ptsz, PFN_cuMemcpyHtoAAsync_v7000_ptsz, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyAtoHAsync_v2, PFN_cuMemcpyAtoHAsync_v3020, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyAtoHAsync_v2_ptsz, PFN_cuMemcpyAtoHAsync_v7000_ptsz, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpy2DAsync_v2, PFN_cuMemcpy2DAsync_v3020, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpy2DAsync_v2_ptsz, PFN_cuMemcpy2DAsync_v7000_ptsz, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpy3DAsync_v2, PFN_cuMemcpy3DAsync_v3020, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpy3DAsync_v2_ptsz, PFN_cuMemcpy3DAsync_v7000_ptsz, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemsetD8Async, PFN_cuMemsetD8Async_v3020, enqueues | looks_up | takes_room) \
  ROW(cuMemsetD8Async_ptsz, PFN_cuMemsetD8Async_v7000_ptsz, enqueues | looks_up | takes_room) \
  ROW(cuMemsetD16Async, PFN_cuMemsetD16Async_v3020, enqueues | looks_up | takes_room) \
  ROW(cuMemsetD16Async_ptsz, PFN_cuMemsetD16Async_v7000_ptsz, enqueues | looks_up | takes_room) \
  ROW(cuMemsetD32Async, PFN_cuMemsetD32Async_v3020, enqueues | looks_up | takes_room) \
  ROW(cuMemsetD32Async_ptsz, PFN_cuMemsetD32Async_v7000_ptsz, enqueues | looks_up | takes_room) \
  ROW(cuMemsetD2D8Async, PFN_cuMemsetD2D8Async_v3020, enqueues | looks_up | takes_room) \
  ROW(cuMemsetD2D8Async_ptsz, PFN_cuMemsetD2D8Async_v7000_ptsz, enqueues | looks_up | takes_room) \
  ROW(cuMemsetD2D16Async, PFN_cuMemsetD2D16Async_v3020, enqueues | looks_up | takes_room) \
  ROW(cuMemsetD2D16Async_ptsz, PFN_cuMemsetD2D16Async_v7000_ptsz, enqueues | looks_up | takes_room) \
  ROW(cuMemsetD2D32Async, PFN_cuMemsetD2D32Async_v3020, enqueues | looks_up | takes_room) \
  ROW(cuMemsetD2D32Async_ptsz, PFN_cuMemsetD2D32Async_v7000_ptsz, enqueues | looks_up | takes_room) \
  ROW(cuMemcpyHtoD_v2, PFN_cuMemcpyHtoD_v3020, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyHtoD_v2_ptds, PFN_cuMemcpyHtoD_v7000_ptds, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyDtoH_v2, PFN_cuMemcpyDtoH_v3020, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyDtoH_v2_ptds, PFN_cuMemcpyDtoH_v7000_ptds, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyDtoD_v2, PFN_cuMemcpyDtoD_v3020, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyDtoD_v2_ptds, PFN_cuMemcpyDtoD_v7000_ptds, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyDtoA_v2, PFN_cuMemcpyDtoA_v3020, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyDtoA_v2_ptds, PFN_cuMemcpyDtoA_v7000_ptds, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyAtoD_v2, PFN_cuMemcpyAtoD_v3020, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyAtoD_v2_ptds, PFN_cuMemcpyAtoD_v7000_ptds, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyHtoA_v2, PFN_cuMemcpyHtoA_v3020, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyHtoA_v2_ptds, PFN_cuMemcpyHtoA_v7000_ptds, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyAtoH_v2, PFN_cuMemcpyAtoH_v3020, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyAtoH_v2_ptds, PFN_cuMemcpyAtoH_v7000_ptds, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyAtoA_v2, PFN_cuMemcpyAtoA_v3020, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyAtoA_v2_ptds, PFN_cuMemcpyAtoA_v7000_ptds, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpy2D_v2, PFN_cuMemcpy2D_v3020, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpy2D_v2_ptds, PFN_cuMemcpy2D_v7000_ptds, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpy2DUnaligned_v2, PFN_cuMemcpy2DUnaligned_v3020, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpy2DUnaligned_v2_ptds, PFN_cuMemcpy2DUnaligned_v7000_ptds, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpy3D_v2, PFN_cuMemcpy3D_v3020, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpy3D_v2_ptds, PFN_cuMemcpy3D_v7000_ptds, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpy, PFN_cuMemcpy_v4000, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpy_ptds, PFN_cuMemcpy_v7000_ptds, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyPeer, PFN_cuMemcpyPeer_v4000, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpyPeer_ptds, PFN_cuMemcpyPeer_v7000_ptds, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpy3DPeer, PFN_cuMemcpy3DPeer_v4000, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemcpy3DPeer_ptds, PFN_cuMemcpy3DPeer_v7000_ptds, enqueues | looks_up | takes_room | copies) \
  ROW(cuMemsetD8_v2, PFN_cuMemsetD8_v3020, enqueues | looks_up | takes_room) \
  ROW(cuMemsetD8_v2_ptds, PFN_cuMemsetD8_v7000_ptds, enqueues | looks_up | takes_room) \
  ROW(cuMemsetD16_v2, PFN_cuMemsetD16_v3020, enqueues | looks_up | takes_room) \
  ROW(cuMemsetD16_v2_ptds, PFN_cuMemsetD16_v7000_ptds, enqueues | looks_up | takes_room) \
  ROW(cuMemsetD32_v2, PFN_cuMemsetD32_v3020, enqueues | looks_up | takes_room) \
  ROW(cuMemsetD32_v2_ptds, PFN_cuMemsetD32_v7000_ptds, enqueues | looks_up | takes_room) \
  ROW(cuMemsetD2D8_v2, PFN_cuMemsetD2D8_v3020, enqueues | looks_up | takes_room) \
  ROW(cuMemsetD2D8_v2_ptds, PFN_cuMemsetD2D8_v7000_ptds, enqueues | looks_up | takes_room) \
  ROW(cuMemsetD2D16_v2, PFN_cuMemsetD2D16_v3020, enqueues | looks_up | takes_room) \
  ROW(cuMemsetD2D16_v2_ptds, PFN_cuMemsetD2D16_v7000_ptds, enqueues | looks_up | takes_room) \
  ROW(cuMemsetD2D32_v2, PFN_cuMemsetD2D32_v3020, enqueues | looks_up | takes_room) \
  ROW(cuMemsetD2D32_v2_ptds, PFN_cuMemsetD2D32_v7000_ptds, enqueues | looks_up | takes_room) \
  ROW(cuStreamWaitValue32, PFN_cuStreamWaitValue32_v8000, enqueues | looks_up | takes_room) \
  ROW(cuStreamWaitValue32_ptsz, PFN_cuStreamWaitValue32_v8000_ptsz, enqueues | looks_up | takes_room) \
  ROW(cuStreamWaitValue64, PFN_cuStreamWaitValue64_v9000, enqueues | looks_up | takes_room) \
  ROW(cuStreamWaitValue64_ptsz, PFN_cuStreamWaitValue64_v9000_ptsz, enqueues | looks_up | takes_room) \
  ROW(cuStreamWriteValue32, PFN_cuStreamWriteValue32_v8000, enqueues | looks_up | takes_room) \
  ROW(cuStreamWriteValue32_ptsz, PFN_cuStreamWriteValue32_v8000_ptsz, enqueues | looks_up | takes_room) \
  ROW(cuStreamWriteValue64, PFN_cuStreamWriteValue64_v9000, enqueues | looks_up | takes_room) \
  ROW(cuStreamWriteValue64_ptsz, PFN_cuStreamWriteValue64_v9000_ptsz, enqueues | looks_up | takes_room) \
  ROW(cuStreamBatchMemOp, PFN_cuStreamBatchMemOp_v8000, enqueues | looks_up | takes_room) \
  ROW(cuStreamBatchMemOp_ptsz, PFN_cuStreamBatchMemOp_v8000_ptsz, enqueues | looks_up | takes_room) \
  ROW(cuStreamWaitValue32_v2, PFN_cuStreamWaitValue32_v11070, enqueues | looks_up | takes_room) \
  ROW(cuStreamWaitValue32_v2_ptsz, PFN_cuStreamWaitValue32_v11070_ptsz, enqueues | looks_up | takes_room) \
  ROW(cuStreamWaitValue64_v2, PFN_cuStreamWaitValue64_v11070, enqueues | looks_up | takes_room) \
  ROW(cuStreamWaitValue64_v2_ptsz, PFN_cuStreamWaitValue64_v11070_ptsz, enqueues | looks_up | takes_room) \
  ROW(cuStreamWaitEvent, PFN_cuStreamWaitEvent_v3020, enqueues | takes_room | joins_capture) \
  ROW(cuStreamWaitEvent_ptsz, PFN_cuStreamWaitEvent_v7000_ptsz, enqueues | takes_room | joins_capture) \
  ROW(cuStreamBatchMemOp_v2, PFN_cuStreamBatchMemOp_v11070, enqueues | looks_up | takes_room) \
  ROW(cuStreamBatchMemOp_v2_ptsz, PFN_cuStreamBatchMemOp_v11070_ptsz, enqueues | looks_up | takes_room) \
  ROW(cuStreamWriteValue32_v2, PFN_cuStreamWriteValue32_v11070, enqueues | looks_up | takes_room) \
  ROW(cuStreamWriteValue32_v2_ptsz, PFN_cuStreamWriteValue32_v11070_ptsz, enqueues | looks_up | takes_room) \
  ROW(cuStreamWriteValue64_v2, PFN_cuStreamWriteValue64_v11070, enqueues | looks_up | takes_room) \
  ROW(cuStreamWriteValue64_v2_ptsz, PFN_cuStreamWriteValue64_v11070_ptsz, enqueues | looks_up | takes_room) \
  ROW(cuLaunch, PFN_cuLaunch_v2000, enqueues | takes_room) \
  ROW(cuLaunchGrid, PFN_cuLaunchGrid_v2000, enqueues | takes_room) \
  ROW(cuLaunchGridAsync, PFN_cuLaunchGridAsync_v2000, enqueues | takes_room) \
  ROW(cuLaunchKernel, PFN_cuLaunchKernel_v4000, enqueues | takes_room) \
  ROW(cuLaunchKernel_ptsz, PFN_cuLaunchKernel_v7000_ptsz, enqueues | takes_room) \
  ROW(cuLaunchCooperativeKernel, PFN_cuLaunchCooperativeKernel_v9000, enqueues | takes_room) \
  ROW(cuLaunchCooperativeKernel_ptsz, PFN_cuLaunchCooperativeKernel_v9000_ptsz, enqueues | takes_room) \
  ROW(cuLaunchHostFunc, PFN_cuLaunchHostFunc_v10000, enqueues | takes_room) \
  ROW(cuLaunchHostFunc_ptsz, PFN_cuLaunchHostFunc_v10000_ptsz, enqueues | takes_room) \
  ROW(cuLaunchHostFunc_v2, vma::LaunchHostFuncWithMode, enqueues | takes_room) \
  ROW(cuLaunchHostFunc_v2_ptsz, vma::LaunchHostFuncWithMode, enqueues | takes_room) \
  ROW(cuGraphUpload, PFN_cuGraphUpload_v11010, enqueues | takes_room) \
  ROW(cuGraphUpload_ptsz, PFN_cuGraphUpload_v11010_ptsz, enqueues | takes_room) \
  ROW(cuStreamAddCallback, PFN_cuStreamAddCallback_v5000, enqueues | takes_room) \
  ROW(cuStreamAddCallback_ptsz, PFN_cuStreamAddCallback_v7000_ptsz, enqueues | takes_room) \
  ROW(cuStreamBeginCapture, FirstBeginCapture, enqueues | takes_room | begins_capture) \
  ROW(cuStreamBeginCapture_ptsz, FirstBeginCapture, enqueues | takes_room | begins_capture) \
  VMART_RUN_NEW_ENQUEUES(ROW) \
  ROW(cuStreamBeginCapture_v2, PFN_cuStreamBeginCapture_v10010, enqueues | takes_room | begins_capture) \
  ROW(cuStreamBeginCapture_v2_ptsz, PFN_cuStreamBeginCapture_v10010_ptsz, enqueues | takes_room | begins_capture) \
  ROW(cuStreamBeginCaptureToGraph, PFN_cuStreamBeginCaptureToGraph_v12030, enqueues | takes_room | begins_capture) \
  ROW(cuStreamBeginCaptureToGraph_ptsz, PFN_cuStreamBeginCaptureToGraph_v12030_ptsz, enqueues | takes_room | begins_capture) \
  ROW(cuStreamBeginRecaptureToGraph, vma::BeginRecapture, enqueues | takes_room | begins_capture) \
  ROW(cuStreamBeginRecaptureToGraph_ptsz, vma::BeginRecapture, enqueues | takes_room | begins_capture) \
  ROW(cuFabricCpyBatchAsync, vma::FabricCopyBatch, enqueues | looks_up | takes_room) \
  ROW(cuFabricCpyBatchAsync_ptsz, vma::FabricCopyBatch, enqueues | looks_up | takes_room)

// Calls that look memory up and enqueue nothing.
#define VMART_RUN_LOOKUPS(ROW)                                                       \
  ROW(cuGraphAddMemcpyNode, PFN_cuGraphAddMemcpyNode_v10000, looks_up | takes_room) \
  ROW(cuGraphAddMemsetNode, PFN_cuGraphAddMemsetNode_v10000, looks_up | takes_room) \
  ROW(cuGraphAddNode, PFN_cuGraphAddNode_v12020, looks_up | takes_room) \
  ROW(cuGraphAddNode_v2, PFN_cuGraphAddNode_v12030, looks_up | takes_room) \
  ROW(cuGraphAddNode_v3, vma::AddNodeOfUnion, looks_up | takes_room) \
  ROW(cuGraphAddBatchMemOpNode, PFN_cuGraphAddBatchMemOpNode_v11070, looks_up | takes_room) \
  ROW(cuGraphBatchMemOpNodeSetParams, PFN_cuGraphBatchMemOpNodeSetParams_v11070, looks_up | takes_room) \
  ROW(cuGraphExecBatchMemOpNodeSetParams, PFN_cuGraphExecBatchMemOpNodeSetParams_v11070, looks_up | takes_room) \
  ROW(cuGraphMemcpyNodeSetParams, PFN_cuGraphMemcpyNodeSetParams_v10000, looks_up | takes_room) \
  ROW(cuGraphMemsetNodeSetParams, PFN_cuGraphMemsetNodeSetParams_v10000, looks_up | takes_room) \
  ROW(cuGraphNodeSetParams, PFN_cuGraphNodeSetParams_v12020, looks_up | takes_room) \
  ROW(cuGraphNodeSetParams_v2, vma::SetNodeOfUnion, looks_up | takes_room) \
  ROW(cuTexRefSetAddress_v2, PFN_cuTexRefSetAddress_v3020, looks_up | takes_room) \
  ROW(cuTexRefSetAddress2D_v3, PFN_cuTexRefSetAddress2D_v4010, looks_up | takes_room) \
  ROW(cuTexObjectCreate, PFN_cuTexObjectCreate_v5000, looks_up | takes_room) \
  ROW(cuStreamEndCapture, PFN_cuStreamEndCapture_v10000, looks_up | ends_capture) \
  ROW(cuStreamEndCapture_ptsz, PFN_cuStreamEndCapture_v10000_ptsz, looks_up | ends_capture) \
  ROW(cuStreamEndCaptureToCig, vma::EndCaptureToCig, looks_up | ends_capture) \
  ROW(cuStreamEndCaptureToCig_ptsz, vma::EndCaptureToCig, looks_up | ends_capture)

// Calls that take memory of the driver's own.
#define VMART_RUN_ROOM_CALLS(ROW)                                                    \
  ROW(cuArrayCreate_v2, PFN_cuArrayCreate_v3020, takes_room) \
  ROW(cuArray3DCreate_v2, PFN_cuArray3DCreate_v3020, takes_room) \
  ROW(cuMipmappedArrayCreate, PFN_cuMipmappedArrayCreate_v5000, takes_room) \
  ROW(cuModuleLoad, PFN_cuModuleLoad_v2000, takes_room) \
  ROW(cuModuleLoadData, PFN_cuModuleLoadData_v2000, takes_room) \
  ROW(cuModuleLoadDataEx, PFN_cuModuleLoadDataEx_v2010, takes_room) \
  ROW(cuModuleLoadFatBinary, PFN_cuModuleLoadFatBinary_v2000, takes_room) \
  ROW(cuLibraryLoadData, PFN_cuLibraryLoadData_v12000, takes_room) \
  ROW(cuLibraryLoadFromFile, PFN_cuLibraryLoadFromFile_v12000, takes_room)

// Calls with a hook of their own, by the file that has it.
#define VMART_RUN_RESOLVING_HOOKS(ROW)                                               \
  ROW(cuGetProcAddress, PFN_cuGetProcAddress_v11030, nothing) \
  ROW(cuGetProcAddress_v2, PFN_cuGetProcAddress_v12000, nothing)

#define VMART_RUN_MEMORY_HOOKS(ROW)                                                  \
  ROW(cuMemAlloc_v2, PFN_cuMemAlloc_v3020, takes_room) \
  ROW(cuMemAllocPitch_v2, PFN_cuMemAllocPitch_v3020, takes_room) \
  ROW(cuMemFree_v2, PFN_cuMemFree_v3020, nothing) \
  ROW(cuMemGetInfo_v2, PFN_cuMemGetInfo_v3020, nothing) \
  ROW(cuMemGetAddressRange_v2, PFN_cuMemGetAddressRange_v3020, looks_up) \
  ROW(cuPointerGetAttribute, PFN_cuPointerGetAttribute_v4000, looks_up) \
  ROW(cuPointerGetAttributes, PFN_cuPointerGetAttributes_v7000, looks_up) \
  ROW(cuPointerSetAttribute, PFN_cuPointerSetAttribute_v6000, looks_up) \
  ROW(cuMemGetHandleForAddressRange, PFN_cuMemGetHandleForAddressRange_v11070, looks_up) \
  ROW(cuIpcGetMemHandle, PFN_cuIpcGetMemHandle_v4010, nothing) \
  ROW(cuIpcOpenMemHandle, PFN_cuIpcOpenMemHandle_v11000, nothing) \
  ROW(cuIpcOpenMemHandle_v2, PFN_cuIpcOpenMemHandle_v11000, nothing) \
  ROW(cuIpcCloseMemHandle, PFN_cuIpcCloseMemHandle_v4010, nothing)

#define VMART_RUN_POOL_HOOKS(ROW)                                                    \
  ROW(cuMemAllocAsync, PFN_cuMemAllocAsync_v11020, enqueues | takes_room) \
  ROW(cuMemAllocAsync_ptsz, PFN_cuMemAllocAsync_v11020_ptsz, enqueues | takes_room) \
  ROW(cuMemAllocFromPoolAsync, PFN_cuMemAllocFromPoolAsync_v11020, enqueues | takes_room) \
  ROW(cuMemAllocFromPoolAsync_ptsz, PFN_cuMemAllocFromPoolAsync_v11020_ptsz, enqueues | takes_room) \
  ROW(cuMemFreeAsync, PFN_cuMemFreeAsync_v11020, enqueues) \
  ROW(cuMemFreeAsync_ptsz, PFN_cuMemFreeAsync_v11020_ptsz, enqueues) \
  ROW(cuMemPoolCreate, PFN_cuMemPoolCreate_v11020, nothing) \
  ROW(cuMemPoolDestroy, PFN_cuMemPoolDestroy_v11020, nothing) \
  ROW(cuMemPoolTrimTo, PFN_cuMemPoolTrimTo_v11020, nothing) \
  ROW(cuMemPoolSetAttribute, PFN_cuMemPoolSetAttribute_v11020, nothing) \
  ROW(cuMemPoolGetAttribute, PFN_cuMemPoolGetAttribute_v11020, nothing)

#if CUDA_VERSION >= 13000
#define VMART_RUN_NEW_WAIT_HOOKS(ROW) ROW(cuCtxSynchronize_v2, PFN_cuCtxSynchronize_v13000, nothing)
#else
#define VMART_RUN_NEW_WAIT_HOOKS(ROW)
#endif
#define VMART_RUN_WAIT_HOOKS(ROW)                                                    \
  ROW(cuStreamSynchronize, PFN_cuStreamSynchronize_v2000, nothing) \
  ROW(cuStreamSynchronize_ptsz, PFN_cuStreamSynchronize_v7000_ptsz, nothing) \
  ROW(cuStreamQuery, PFN_cuStreamQuery_v2000, nothing) \
  ROW(cuStreamQuery_ptsz, PFN_cuStreamQuery_v7000_ptsz, nothing) \
  ROW(cuEventSynchronize, PFN_cuEventSynchronize_v2000, nothing) \
  VMART_RUN_NEW_WAIT_HOOKS(ROW)                                                      \
  ROW(cuCtxSynchronize, PFN_cuCtxSynchronize_v2000, nothing)

#define VMART_RUN_MAPPING_HOOKS(ROW)                                                 \
  ROW(cuMemAddressFree, PFN_cuMemAddressFree_v10020, nothing) \
  ROW(cuMemCreate, PFN_cuMemCreate_v10020, takes_room) \
  ROW(cuMemRelease, PFN_cuMemRelease_v10020, nothing) \
  ROW(cuMemMap, PFN_cuMemMap_v10020, nothing) \
  ROW(cuMemUnmap, PFN_cuMemUnmap_v10020, nothing) \
  ROW(cuMemSetAccess, PFN_cuMemSetAccess_v10020, nothing) \
  ROW(cuMemGetAccess, PFN_cuMemGetAccess_v10020, looks_up) \
  ROW(cuMemRetainAllocationHandle, PFN_cuMemRetainAllocationHandle_v11000, looks_up) \
  ROW(cuMemGetAllocationPropertiesFromHandle, PFN_cuMemGetAllocationPropertiesFromHandle_v10020, nothing) \
  ROW(cuMemExportToShareableHandle, PFN_cuMemExportToShareableHandle_v10020, nothing) \
  ROW(cuMulticastBindMem, PFN_cuMulticastBindMem_v12010, nothing) \
  ROW(cuMulticastBindMem_v2, vma::MulticastBindMemOfDevice, nothing) \
  ROW(cuMulticastBindAddr, PFN_cuMulticastBindAddr_v12010, looks_up) \
  ROW(cuMulticastBindAddr_v2, vma::MulticastBindAddrOfDevice, looks_up) \
  ROW(cuLogicalEndpointBindMem, vma::LogicalEndpointBindMem, nothing) \
  ROW(cuLogicalEndpointBindAddr, vma::LogicalEndpointBindAddr, looks_up)

#define VMART_RUN_CONTEXT_HOOKS(ROW)                                                 \
  ROW(cuStreamCreate, PFN_cuStreamCreate_v2000, nothing) \
  ROW(cuStreamCreateWithPriority, PFN_cuStreamCreateWithPriority_v5050, nothing) \
  ROW(cuGreenCtxStreamCreate, PFN_cuGreenCtxStreamCreate_v12050, nothing) \
  ROW(cuStreamDestroy, PFN_cuStreamDestroy_v4000, destroys_stream) \
  ROW(cuStreamDestroy_v2, PFN_cuStreamDestroy_v4000, destroys_stream) \
  ROW(cuGreenCtxCreate, PFN_cuGreenCtxCreate_v12040, creates_context) \
  ROW(cuGreenCtxDestroy, PFN_cuGreenCtxDestroy_v12040, nothing) \
  ROW(cuCtxCreate, PFN_cuCtxCreate_v3020, creates_context) \
  ROW(cuCtxDestroy, PFN_cuCtxDestroy_v4000, nothing) \
  ROW(cuCtxPushCurrent, PFN_cuCtxPushCurrent_v4000, nothing) \
  ROW(cuCtxSetFlags, PFN_cuCtxSetFlags_v12010, nothing) \
  ROW(cuDevicePrimaryCtxRetain, PFN_cuDevicePrimaryCtxRetain_v7000, creates_context) \
  ROW(cuDevicePrimaryCtxSetFlags, PFN_cuDevicePrimaryCtxSetFlags_v11000, nothing) \
  ROW(cuDevicePrimaryCtxSetFlags_v2, PFN_cuDevicePrimaryCtxSetFlags_v11000, nothing) \
  ROW(cuDevicePrimaryCtxRelease, PFN_cuDevicePrimaryCtxRelease_v11000, nothing) \
  ROW(cuDevicePrimaryCtxRelease_v2, PFN_cuDevicePrimaryCtxRelease_v11000, nothing) \
  ROW(cuCtxCreate_v2, PFN_cuCtxCreate_v3020, creates_context) \
  ROW(cuCtxCreate_v3, PFN_cuCtxCreate_v11040, creates_context) \
  ROW(cuCtxCreate_v4, PFN_cuCtxCreate_v12050, creates_context) \
  ROW(cuCtxDestroy_v2, PFN_cuCtxDestroy_v4000, nothing) \
  ROW(cuCtxSetCurrent, PFN_cuCtxSetCurrent_v4000, nothing) \
  ROW(cuCtxPushCurrent_v2, PFN_cuCtxPushCurrent_v4000, nothing) \
  ROW(cuDevicePrimaryCtxReset, PFN_cuDevicePrimaryCtxReset_v11000, nothing) \
  ROW(cuDevicePrimaryCtxReset_v2, PFN_cuDevicePrimaryCtxReset_v11000, nothing)

#define VMART_RUN_LAUNCH_HOOKS(ROW)                                                  \
  ROW(cuLaunchKernelEx, PFN_cuLaunchKernelEx_v11060, enqueues | takes_room) \
  ROW(cuLaunchKernelEx_ptsz, PFN_cuLaunchKernelEx_v11060_ptsz, enqueues | takes_room) \
  ROW(cuLaunchCooperativeKernelMultiDevice, PFN_cuLaunchCooperativeKernelMultiDevice_v9000, enqueues) \
  ROW(cuModuleUnload, PFN_cuModuleUnload_v2000, nothing) \
  ROW(cuLibraryUnload, PFN_cuLibraryUnload_v12000, nothing)

#define VMART_RUN_GRAPH_HOOKS(ROW)                                                   \
  ROW(cuGraphInstantiate, InstantiateWithLog, looks_up | takes_room) \
  ROW(cuGraphInstantiate_v2, InstantiateWithLog, looks_up | takes_room) \
  ROW(cuGraphInstantiateWithFlags, PFN_cuGraphInstantiateWithFlags_v11040, looks_up | takes_room) \
  ROW(cuGraphInstantiateWithParams, PFN_cuGraphInstantiateWithParams_v12000, looks_up | takes_room) \
  ROW(cuGraphInstantiateWithParams_ptsz, PFN_cuGraphInstantiateWithParams_v12000_ptsz, looks_up | takes_room) \
  ROW(cuGraphLaunch, PFN_cuGraphLaunch_v10000, enqueues | takes_room) \
  ROW(cuGraphLaunch_ptsz, PFN_cuGraphLaunch_v10000_ptsz, enqueues | takes_room) \
  ROW(cuGraphExecDestroy, PFN_cuGraphExecDestroy_v10000, nothing) \
  ROW(cuGraphExecUpdate, PFN_cuGraphExecUpdate_v10020, looks_up | takes_room) \
  ROW(cuGraphExecUpdate_v2, PFN_cuGraphExecUpdate_v12000, looks_up | takes_room) \
  ROW(cuGraphExecKernelNodeSetParams, PFN_cuGraphExecKernelNodeSetParams_v10010, nothing) \
  ROW(cuGraphExecKernelNodeSetParams_v2, PFN_cuGraphExecKernelNodeSetParams_v12000, nothing) \
  ROW(cuGraphExecMemcpyNodeSetParams, PFN_cuGraphExecMemcpyNodeSetParams_v10020, looks_up | takes_room) \
  ROW(cuGraphExecMemsetNodeSetParams, PFN_cuGraphExecMemsetNodeSetParams_v10020, looks_up | takes_room) \
  ROW(cuGraphExecNodeSetParams, PFN_cuGraphExecNodeSetParams_v12020, looks_up | takes_room) \
  ROW(cuGraphExecChildGraphNodeSetParams, PFN_cuGraphExecChildGraphNodeSetParams_v11010, looks_up | takes_room) \
  ROW(cuGraphNodeSetEnabled, PFN_cuGraphNodeSetEnabled_v11060, nothing)

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

#define VMART_RUN_GENERIC(ROW) \
  VMART_RUN_ENQUEUES(ROW)      \
  VMART_RUN_LOOKUPS(ROW)       \
  VMART_RUN_ROOM_CALLS(ROW)

#define VMART_RUN_ENTRY_POINTS(ROW) \
  VMART_RUN_HOOKS(ROW)              \
  VMART_RUN_GENERIC(ROW)

namespace vma {

/// What a call does, as far as those around it must know.
enum class Does : unsigned {
  nothing = 0,
  enqueues = 1,    ///< Work on a stream.
  looks_up = 2,    ///< The memory that it names, which must not be dark meanwhile. Launches
                   ///< look theirs up when they run.
  takes_room = 4,  ///< Of the driver, and may be made again once there is some.
  copies = 8,      ///< In the order of both GPUs, if that is in the legacy stream.
  begins_capture = 16,
  joins_capture = 32,     ///< Maybe.
  ends_capture = 64,      ///< Also if it fails.
  creates_context = 128,  ///< Under the driver's lock, which stopped work may keep it in.
  destroys_stream = 256,
};
constexpr Does operator|(Does one, Does other) noexcept {
  return static_cast<Does>(static_cast<unsigned>(one) | static_cast<unsigned>(other));
}

/// One enumerator for each row.
enum class EntryPoint : int {
#define ROW(symbol, type, does) symbol,
  VMART_RUN_ENTRY_POINTS(ROW)
#undef ROW
      count
};

template <EntryPoint>
struct TypeOf;
#define ROW(symbol, type, does)       \
  template <>                         \
  struct TypeOf<EntryPoint::symbol> { \
    using Pointer = type;             \
  };
VMART_RUN_ENTRY_POINTS(ROW)
#undef ROW

/// A row, but for its type.
struct EntryRow {
  std::string_view symbol;
  Does does;
};
inline constexpr std::size_t entry_count = static_cast<std::size_t>(EntryPoint::count);
inline constexpr auto entry_rows = [] {
  using enum Does;
  return std::array<EntryRow, entry_count>{{
#define ROW(symbol, type, does) {#symbol, does},
      VMART_RUN_ENTRY_POINTS(ROW)
#undef ROW
  }};
}();

constexpr std::string_view symbol_of(EntryPoint entry) noexcept {
  return entry_rows[static_cast<std::size_t>(entry)].symbol;
}
constexpr bool does(EntryPoint entry, Does what) noexcept {
  return (static_cast<unsigned>(entry_rows[static_cast<std::size_t>(entry)].does) &
          static_cast<unsigned>(what)) != 0;
}

}  // namespace vma
