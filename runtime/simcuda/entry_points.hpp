#pragma once

// Every call of the library, one row each: its base name, the version of CUDA that cuGetProcAddress
// is asked for, and the exported symbol. `procedures.cpp` checks each row against cudaTypedefs.h.
// clang-format would repack the rows.
// clang-format off
#define SIMCUDA_CALLS(ROW)                                                                                              \
  ROW(cuInit, 2000, cuInit)                                                                                             \
  ROW(cuDriverGetVersion, 2020, cuDriverGetVersion)                                                                     \
  ROW(cuGetErrorName, 6000, cuGetErrorName)                                                                             \
  ROW(cuGetErrorString, 6000, cuGetErrorString)                                                                         \
  ROW(cuGetExportTable, 3000, cuGetExportTable)                                                                         \
  ROW(cuGetProcAddress, 11030, cuGetProcAddress)                                                                        \
  ROW(cuGetProcAddress, 12000, cuGetProcAddress_v2)                                                                     \
  ROW(cuDeviceGetCount, 2000, cuDeviceGetCount)                                                                         \
  ROW(cuDeviceGet, 2000, cuDeviceGet)                                                                                   \
  ROW(cuDeviceGetName, 2000, cuDeviceGetName)                                                                           \
  ROW(cuDeviceGetUuid, 9020, cuDeviceGetUuid)                                                                           \
  ROW(cuDeviceGetUuid, 11040, cuDeviceGetUuid_v2)                                                                       \
  ROW(cuDeviceGetPCIBusId, 4010, cuDeviceGetPCIBusId)                                                                   \
  ROW(cuDeviceGetByPCIBusId, 4010, cuDeviceGetByPCIBusId)                                                               \
  ROW(cuDeviceTotalMem, 3020, cuDeviceTotalMem_v2)                                                                      \
  ROW(cuDeviceGetAttribute, 2000, cuDeviceGetAttribute)                                                                 \
  ROW(cuDeviceCanAccessPeer, 4000, cuDeviceCanAccessPeer)                                                               \
  ROW(cuDeviceGetP2PAttribute, 8000, cuDeviceGetP2PAttribute)                                                           \
  ROW(cuDeviceGetDevResource, 12040, cuDeviceGetDevResource)                                                            \
  ROW(cuDeviceGetDefaultMemPool, 11020, cuDeviceGetDefaultMemPool)                                                      \
  ROW(cuDeviceGetMemPool, 11020, cuDeviceGetMemPool)                                                                    \
  ROW(cuDeviceSetMemPool, 11020, cuDeviceSetMemPool)                                                                    \
  ROW(cuDeviceGraphMemTrim, 11040, cuDeviceGraphMemTrim)                                                                \
  ROW(cuDevicePrimaryCtxRetain, 7000, cuDevicePrimaryCtxRetain)                                                         \
  ROW(cuDevicePrimaryCtxRelease, 7000, cuDevicePrimaryCtxRelease)                                                       \
  ROW(cuDevicePrimaryCtxRelease, 11000, cuDevicePrimaryCtxRelease_v2)                                                   \
  ROW(cuDevicePrimaryCtxGetState, 7000, cuDevicePrimaryCtxGetState)                                                     \
  ROW(cuDevicePrimaryCtxSetFlags, 11000, cuDevicePrimaryCtxSetFlags_v2)                                                 \
  ROW(cuCtxCreate, 2000, cuCtxCreate)                                                                                   \
  ROW(cuCtxCreate, 3020, cuCtxCreate_v2)                                                                                \
  ROW(cuCtxCreate, 11040, cuCtxCreate_v3)                                                                               \
  ROW(cuCtxCreate, 12050, cuCtxCreate_v4)                                                                               \
  ROW(cuCtxDestroy, 2000, cuCtxDestroy)                                                                                 \
  ROW(cuCtxDestroy, 4000, cuCtxDestroy_v2)                                                                              \
  ROW(cuCtxGetCurrent, 4000, cuCtxGetCurrent)                                                                           \
  ROW(cuCtxSetCurrent, 4000, cuCtxSetCurrent)                                                                           \
  ROW(cuCtxPushCurrent, 2000, cuCtxPushCurrent)                                                                         \
  ROW(cuCtxPushCurrent, 4000, cuCtxPushCurrent_v2)                                                                      \
  ROW(cuCtxPopCurrent, 2000, cuCtxPopCurrent)                                                                           \
  ROW(cuCtxPopCurrent, 4000, cuCtxPopCurrent_v2)                                                                        \
  ROW(cuCtxGetDevice, 2000, cuCtxGetDevice)                                                                             \
  ROW(cuCtxGetId, 12000, cuCtxGetId)                                                                                    \
  ROW(cuCtxGetFlags, 7000, cuCtxGetFlags)                                                                               \
  ROW(cuCtxSetFlags, 12010, cuCtxSetFlags)                                                                              \
  ROW(cuCtxGetApiVersion, 3020, cuCtxGetApiVersion)                                                                     \
  ROW(cuCtxGetStreamPriorityRange, 5050, cuCtxGetStreamPriorityRange)                                                   \
  ROW(cuCtxGetLimit, 3010, cuCtxGetLimit)                                                                               \
  ROW(cuCtxSetLimit, 3010, cuCtxSetLimit)                                                                               \
  ROW(cuCtxGetCacheConfig, 3020, cuCtxGetCacheConfig)                                                                   \
  ROW(cuCtxSetCacheConfig, 3020, cuCtxSetCacheConfig)                                                                   \
  ROW(cuCtxSynchronize, 2000, cuCtxSynchronize)                                                                         \
  ROW(cuCtxRecordEvent, 12050, cuCtxRecordEvent)                                                                        \
  ROW(cuCtxWaitEvent, 12050, cuCtxWaitEvent)                                                                            \
  ROW(cuCtxEnablePeerAccess, 4000, cuCtxEnablePeerAccess)                                                               \
  ROW(cuCtxDisablePeerAccess, 4000, cuCtxDisablePeerAccess)                                                             \
  ROW(cuDevSmResourceSplitByCount, 12040, cuDevSmResourceSplitByCount)                                                  \
  ROW(cuDevResourceGenerateDesc, 12040, cuDevResourceGenerateDesc)                                                      \
  ROW(cuGreenCtxCreate, 12040, cuGreenCtxCreate)                                                                        \
  ROW(cuGreenCtxDestroy, 12040, cuGreenCtxDestroy)                                                                      \
  ROW(cuCtxFromGreenCtx, 12040, cuCtxFromGreenCtx)                                                                      \
  ROW(cuGreenCtxStreamCreate, 12050, cuGreenCtxStreamCreate)                                                            \
  ROW(cuMemAlloc, 3020, cuMemAlloc_v2)                                                                                  \
  ROW(cuMemAllocPitch, 3020, cuMemAllocPitch_v2)                                                                        \
  ROW(cuArrayCreate, 3020, cuArrayCreate_v2)                                                                            \
  ROW(cuArrayDestroy, 2000, cuArrayDestroy)                                                                             \
  ROW(cuMemFree, 3020, cuMemFree_v2)                                                                                    \
  ROW(cuMemGetInfo, 3020, cuMemGetInfo_v2)                                                                              \
  ROW(cuMemHostAlloc, 2020, cuMemHostAlloc)                                                                             \
  ROW(cuMemAllocHost, 3020, cuMemAllocHost_v2)                                                                          \
  ROW(cuMemFreeHost, 2000, cuMemFreeHost)                                                                               \
  ROW(cuMemHostGetDevicePointer, 3020, cuMemHostGetDevicePointer_v2)                                                    \
  ROW(cuMemHostGetFlags, 2030, cuMemHostGetFlags)                                                                       \
  ROW(cuMemHostRegister, 6050, cuMemHostRegister_v2)                                                                    \
  ROW(cuMemHostUnregister, 4000, cuMemHostUnregister)                                                                   \
  ROW(cuMemAllocManaged, 6000, cuMemAllocManaged)                                                                       \
  ROW(cuMemPoolCreate, 11020, cuMemPoolCreate)                                                                          \
  ROW(cuMemPoolDestroy, 11020, cuMemPoolDestroy)                                                                        \
  ROW(cuMemPoolTrimTo, 11020, cuMemPoolTrimTo)                                                                          \
  ROW(cuMemPoolSetAttribute, 11020, cuMemPoolSetAttribute)                                                              \
  ROW(cuMemPoolGetAttribute, 11020, cuMemPoolGetAttribute)                                                              \
  ROW(cuMemPoolSetAccess, 11020, cuMemPoolSetAccess)                                                                    \
  ROW(cuMemPoolGetAccess, 11020, cuMemPoolGetAccess)                                                                    \
  ROW(cuIpcGetMemHandle, 4010, cuIpcGetMemHandle)                                                                       \
  ROW(cuIpcOpenMemHandle, 11000, cuIpcOpenMemHandle_v2)                                                                 \
  ROW(cuIpcCloseMemHandle, 4010, cuIpcCloseMemHandle)                                                                   \
  ROW(cuIpcGetEventHandle, 4010, cuIpcGetEventHandle)                                                                   \
  ROW(cuIpcOpenEventHandle, 4010, cuIpcOpenEventHandle)                                                                 \
  ROW(cuMemGetAllocationGranularity, 10020, cuMemGetAllocationGranularity)                                              \
  ROW(cuMemAddressReserve, 10020, cuMemAddressReserve)                                                                  \
  ROW(cuMemAddressFree, 10020, cuMemAddressFree)                                                                        \
  ROW(cuMemCreate, 10020, cuMemCreate)                                                                                  \
  ROW(cuMemRelease, 10020, cuMemRelease)                                                                                \
  ROW(cuMemMap, 10020, cuMemMap)                                                                                        \
  ROW(cuMemUnmap, 10020, cuMemUnmap)                                                                                    \
  ROW(cuMemSetAccess, 10020, cuMemSetAccess)                                                                            \
  ROW(cuMemGetAccess, 10020, cuMemGetAccess)                                                                            \
  ROW(cuMemRetainAllocationHandle, 11000, cuMemRetainAllocationHandle)                                                  \
  ROW(cuMemGetAllocationPropertiesFromHandle, 10020, cuMemGetAllocationPropertiesFromHandle)                            \
  ROW(cuMemExportToShareableHandle, 10020, cuMemExportToShareableHandle)                                                \
  ROW(cuMemImportFromShareableHandle, 10020, cuMemImportFromShareableHandle)                                            \
  ROW(cuMemGetAddressRange, 3020, cuMemGetAddressRange_v2)                                                              \
  ROW(cuPointerGetAttribute, 4000, cuPointerGetAttribute)                                                               \
  ROW(cuPointerGetAttributes, 7000, cuPointerGetAttributes)                                                             \
  ROW(cuStreamCreate, 2000, cuStreamCreate)                                                                             \
  ROW(cuStreamCreateWithPriority, 5050, cuStreamCreateWithPriority)                                                     \
  ROW(cuStreamDestroy, 2000, cuStreamDestroy)                                                                           \
  ROW(cuStreamDestroy, 4000, cuStreamDestroy_v2)                                                                        \
  ROW(cuEventCreate, 2000, cuEventCreate)                                                                               \
  ROW(cuEventDestroy, 2000, cuEventDestroy)                                                                             \
  ROW(cuEventDestroy, 4000, cuEventDestroy_v2)                                                                          \
  ROW(cuEventQuery, 2000, cuEventQuery)                                                                                 \
  ROW(cuEventSynchronize, 2000, cuEventSynchronize)                                                                     \
  ROW(cuEventElapsedTime, 2000, cuEventElapsedTime)                                                                     \
  ROW(cuModuleLoad, 2000, cuModuleLoad)                                                                                 \
  ROW(cuModuleLoadData, 2000, cuModuleLoadData)                                                                         \
  ROW(cuModuleLoadDataEx, 2010, cuModuleLoadDataEx)                                                                     \
  ROW(cuModuleLoadFatBinary, 2000, cuModuleLoadFatBinary)                                                               \
  ROW(cuModuleUnload, 2000, cuModuleUnload)                                                                             \
  ROW(cuModuleGetFunction, 2000, cuModuleGetFunction)                                                                   \
  ROW(cuModuleGetGlobal, 3020, cuModuleGetGlobal_v2)                                                                    \
  ROW(cuModuleGetLoadingMode, 11070, cuModuleGetLoadingMode)                                                            \
  ROW(cuFuncLoad, 12040, cuFuncLoad)                                                                                    \
  ROW(cuFuncIsLoaded, 12040, cuFuncIsLoaded)                                                                            \
  ROW(cuFuncGetAttribute, 2020, cuFuncGetAttribute)                                                                     \
  ROW(cuFuncSetAttribute, 9000, cuFuncSetAttribute)                                                                     \
  ROW(cuFuncSetCacheConfig, 3000, cuFuncSetCacheConfig)                                                                 \
  ROW(cuFuncGetName, 12030, cuFuncGetName)                                                                              \
  ROW(cuFuncGetParamInfo, 12040, cuFuncGetParamInfo)                                                                    \
  ROW(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, cuOccupancyMaxActiveBlocksPerMultiprocessor)                   \
  ROW(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags) \
  ROW(cuLibraryLoadData, 12000, cuLibraryLoadData)                                                                      \
  ROW(cuLibraryUnload, 12000, cuLibraryUnload)                                                                          \
  ROW(cuLibraryGetKernel, 12000, cuLibraryGetKernel)                                                                    \
  ROW(cuKernelGetFunction, 12000, cuKernelGetFunction)                                                                  \
  ROW(cuKernelGetParamInfo, 12040, cuKernelGetParamInfo)                                                                \
  ROW(cuGraphCreate, 10000, cuGraphCreate)                                                                              \
  ROW(cuGraphDestroy, 10000, cuGraphDestroy)                                                                            \
  ROW(cuGraphAddKernelNode, 10000, cuGraphAddKernelNode)                                                                \
  ROW(cuGraphAddKernelNode, 12000, cuGraphAddKernelNode_v2)                                                             \
  ROW(cuGraphAddBatchMemOpNode, 11070, cuGraphAddBatchMemOpNode)                                                        \
  ROW(cuGraphAddEmptyNode, 10000, cuGraphAddEmptyNode)                                                                  \
  ROW(cuGraphNodeGetType, 10000, cuGraphNodeGetType)                                                                    \
  ROW(cuGraphGetNodes, 10000, cuGraphGetNodes)                                                                          \
  ROW(cuGraphAddChildGraphNode, 10000, cuGraphAddChildGraphNode)                                                         \
  ROW(cuGraphChildGraphNodeGetGraph, 10000, cuGraphChildGraphNodeGetGraph)                                               \
  ROW(cuGraphKernelNodeGetParams, 10000, cuGraphKernelNodeGetParams)                                                     \
  ROW(cuGraphKernelNodeGetParams, 12000, cuGraphKernelNodeGetParams_v2)                                                  \
  ROW(cuGraphMemcpyNodeGetParams, 10000, cuGraphMemcpyNodeGetParams)                                                     \
  ROW(cuGraphMemsetNodeGetParams, 10000, cuGraphMemsetNodeGetParams)                                                     \
  ROW(cuGraphInstantiate, 10000, cuGraphInstantiate)                                                                    \
  ROW(cuGraphInstantiate, 11000, cuGraphInstantiate_v2)                                                                 \
  ROW(cuGraphInstantiateWithFlags, 11040, cuGraphInstantiateWithFlags)                                                  \
  ROW(cuGraphExecDestroy, 10000, cuGraphExecDestroy)                                                                    \
  ROW(cuGraphExecKernelNodeSetParams, 10010, cuGraphExecKernelNodeSetParams)                                            \
  ROW(cuGraphExecKernelNodeSetParams, 12000, cuGraphExecKernelNodeSetParams_v2)                                         \
  ROW(cuGraphAddMemcpyNode, 10000, cuGraphAddMemcpyNode)                                                                \
  ROW(cuGraphAddMemsetNode, 10000, cuGraphAddMemsetNode)                                                                \
  ROW(cuGraphExecMemcpyNodeSetParams, 10020, cuGraphExecMemcpyNodeSetParams)                                            \
  ROW(cuGraphExecMemsetNodeSetParams, 10020, cuGraphExecMemsetNodeSetParams)                                            \
  ROW(cuGraphExecBatchMemOpNodeSetParams, 11070, cuGraphExecBatchMemOpNodeSetParams)                                    \
  ROW(cuGraphExecUpdate, 12000, cuGraphExecUpdate_v2)                                                                   \
  ROW(cuUserObjectCreate, 11030, cuUserObjectCreate)                                                                    \
  ROW(cuUserObjectRetain, 11030, cuUserObjectRetain)                                                                    \
  ROW(cuUserObjectRelease, 11030, cuUserObjectRelease)                                                                  \
  ROW(cuGraphRetainUserObject, 11030, cuGraphRetainUserObject)                                                          \
  ROW(cuThreadExchangeStreamCaptureMode, 10010, cuThreadExchangeStreamCaptureMode)                                      \
  SIMCUDA_CALLS_OF_12_8(ROW)

// Those that an older cuda.h does not declare.
#if CUDA_VERSION >= 12080
#define SIMCUDA_CALLS_OF_12_8(ROW) ROW(cuEventElapsedTime, 12080, cuEventElapsedTime_v2)
#else
#define SIMCUDA_CALLS_OF_12_8(ROW)
#endif

// Those with a second symbol, of this suffix, for programs whose stream zero is per thread.
#define SIMCUDA_STREAM_CALLS(ROW)                                        \
  ROW(cuMemAllocAsync, 11020, cuMemAllocAsync, _ptsz)                    \
  ROW(cuMemAllocFromPoolAsync, 11020, cuMemAllocFromPoolAsync, _ptsz)    \
  ROW(cuMemFreeAsync, 11020, cuMemFreeAsync, _ptsz)                      \
  ROW(cuStreamGetCtx, 9020, cuStreamGetCtx, _ptsz)                       \
  ROW(cuStreamGetId, 12000, cuStreamGetId, _ptsz)                        \
  ROW(cuStreamGetFlags, 5050, cuStreamGetFlags, _ptsz)                   \
  ROW(cuStreamGetPriority, 5050, cuStreamGetPriority, _ptsz)             \
  ROW(cuStreamQuery, 2000, cuStreamQuery, _ptsz)                         \
  ROW(cuStreamSynchronize, 2000, cuStreamSynchronize, _ptsz)             \
  ROW(cuStreamWaitEvent, 3020, cuStreamWaitEvent, _ptsz)                 \
  ROW(cuLaunchHostFunc, 10000, cuLaunchHostFunc, _ptsz)                  \
  ROW(cuStreamAddCallback, 5000, cuStreamAddCallback, _ptsz)             \
  ROW(cuEventRecord, 2000, cuEventRecord, _ptsz)                         \
  ROW(cuEventRecordWithFlags, 11010, cuEventRecordWithFlags, _ptsz)      \
  ROW(cuMemcpy, 4000, cuMemcpy, _ptds)                                   \
  ROW(cuMemcpyPeer, 4000, cuMemcpyPeer, _ptds)                           \
  ROW(cuMemcpyHtoD, 3020, cuMemcpyHtoD_v2, _ptds)                        \
  ROW(cuMemcpyDtoH, 3020, cuMemcpyDtoH_v2, _ptds)                        \
  ROW(cuMemcpyDtoD, 3020, cuMemcpyDtoD_v2, _ptds)                        \
  ROW(cuMemcpy2D, 3020, cuMemcpy2D_v2, _ptds)                            \
  ROW(cuMemcpy2DUnaligned, 3020, cuMemcpy2DUnaligned_v2, _ptds)          \
  ROW(cuMemcpyAsync, 4000, cuMemcpyAsync, _ptsz)                         \
  ROW(cuMemcpyPeerAsync, 4000, cuMemcpyPeerAsync, _ptsz)                 \
  ROW(cuMemcpyHtoDAsync, 3020, cuMemcpyHtoDAsync_v2, _ptsz)              \
  ROW(cuMemcpyDtoHAsync, 3020, cuMemcpyDtoHAsync_v2, _ptsz)              \
  ROW(cuMemcpyDtoDAsync, 3020, cuMemcpyDtoDAsync_v2, _ptsz)              \
  ROW(cuMemcpy2DAsync, 3020, cuMemcpy2DAsync_v2, _ptsz)                  \
  ROW(cuMemsetD8, 3020, cuMemsetD8_v2, _ptds)                            \
  ROW(cuMemsetD16, 3020, cuMemsetD16_v2, _ptds)                          \
  ROW(cuMemsetD32, 3020, cuMemsetD32_v2, _ptds)                          \
  ROW(cuMemcpy3D, 3020, cuMemcpy3D_v2, _ptds)                            \
  ROW(cuMemcpy3DAsync, 3020, cuMemcpy3DAsync_v2, _ptsz)                  \
  ROW(cuMemsetD2D8, 3020, cuMemsetD2D8_v2, _ptds)                        \
  ROW(cuMemsetD2D16, 3020, cuMemsetD2D16_v2, _ptds)                      \
  ROW(cuMemsetD2D32, 3020, cuMemsetD2D32_v2, _ptds)                      \
  ROW(cuMemsetD2D8Async, 3020, cuMemsetD2D8Async, _ptsz)                 \
  ROW(cuMemsetD2D16Async, 3020, cuMemsetD2D16Async, _ptsz)               \
  ROW(cuMemsetD2D32Async, 3020, cuMemsetD2D32Async, _ptsz)               \
  ROW(cuMemsetD8Async, 3020, cuMemsetD8Async, _ptsz)                     \
  ROW(cuMemsetD16Async, 3020, cuMemsetD16Async, _ptsz)                   \
  ROW(cuMemsetD32Async, 3020, cuMemsetD32Async, _ptsz)                   \
  ROW(cuStreamBatchMemOp, 8000, cuStreamBatchMemOp, _ptsz)               \
  ROW(cuStreamBatchMemOp, 11070, cuStreamBatchMemOp_v2, _ptsz)           \
  ROW(cuStreamWriteValue64, 9000, cuStreamWriteValue64, _ptsz)           \
  ROW(cuStreamWriteValue64, 11070, cuStreamWriteValue64_v2, _ptsz)       \
  ROW(cuStreamWaitValue64, 9000, cuStreamWaitValue64, _ptsz)             \
  ROW(cuStreamWaitValue64, 11070, cuStreamWaitValue64_v2, _ptsz)         \
  ROW(cuLaunchKernel, 4000, cuLaunchKernel, _ptsz)                       \
  ROW(cuLaunchKernelEx, 11060, cuLaunchKernelEx, _ptsz)                  \
  ROW(cuLaunchCooperativeKernel, 9000, cuLaunchCooperativeKernel, _ptsz) \
  ROW(cuGraphUpload, 11010, cuGraphUpload, _ptsz)                        \
  ROW(cuGraphLaunch, 10000, cuGraphLaunch, _ptsz)                        \
  ROW(cuStreamBeginCapture, 10000, cuStreamBeginCapture, _ptsz)          \
  ROW(cuStreamBeginCapture, 10010, cuStreamBeginCapture_v2, _ptsz)       \
  ROW(cuStreamEndCapture, 10000, cuStreamEndCapture, _ptsz)              \
  ROW(cuStreamIsCapturing, 10000, cuStreamIsCapturing, _ptsz)            \
  ROW(cuStreamGetCaptureInfo, 10010, cuStreamGetCaptureInfo, _ptsz)      \
  ROW(cuStreamGetCaptureInfo, 11030, cuStreamGetCaptureInfo_v2, _ptsz)   \
  ROW(cuStreamGetCaptureInfo, 12030, cuStreamGetCaptureInfo_v3, _ptsz)

// Calls of CUDA 13.1 to 13.5, with the types of entry_points/newer_types.hpp, and those with a variant per thread.
#define SIMCUDA_NEWER_CALLS(ROW)                                                   \
  ROW(cuGraphAddNode_v3, 13040, cuGraphAddNode_v3, AddNodeOfUnion)                 \
  ROW(cuGraphNodeSetParams_v2, 13040, cuGraphNodeSetParams_v2, SetNodeOfUnion)
#define SIMCUDA_NEWER_STREAM_CALLS(ROW)                                            \
  ROW(cuLaunchHostFunc_v2, 13010, cuLaunchHostFunc_v2, LaunchHostFuncWithMode)     \
  SIMCUDA_NEWER_COPIES(ROW)
#if CUDA_VERSION >= 12080
#define SIMCUDA_NEWER_COPIES(ROW)                                                                       \
  ROW(cuMemcpyWithAttributesAsync, 13020, cuMemcpyWithAttributesAsync, MemcpyWithAttributes)             \
  ROW(cuMemcpy3DWithAttributesAsync, 13020, cuMemcpy3DWithAttributesAsync, Memcpy3DWithAttributes)
#else
#define SIMCUDA_NEWER_COPIES(ROW)
#endif
// clang-format on
