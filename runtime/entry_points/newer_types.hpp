#pragma once

// Types of calls that CUDA 13.1 to 13.5 added. Building needs no newer cuda.h than that of
// CUDA 12.5, so they are written out here, and compared with the header's where it has them.
#include <cuda.h>
#include <cudaTypedefs.h>

#include <cstddef>
#include <type_traits>

namespace vma {

// --- 13.1
using LaunchHostFuncWithMode = CUresult (*)(CUstream, CUhostFn, void*, unsigned sync_mode);
using MulticastBindMemOfDevice = CUresult (*)(CUmemGenericAllocationHandle, CUdevice, std::size_t,
                                              CUmemGenericAllocationHandle, std::size_t,
                                              std::size_t, unsigned long long);
using MulticastBindAddrOfDevice = CUresult (*)(CUmemGenericAllocationHandle, CUdevice, std::size_t,
                                               CUdeviceptr, std::size_t, unsigned long long);

// --- 13.2
using EndCaptureToCig = CUresult (*)(CUstream);
// Of types since 12.8.
#if CUDA_VERSION >= 12080
using MemcpyWithAttributes = CUresult (*)(CUdeviceptr, CUdeviceptr, std::size_t,
                                          CUmemcpyAttributes*, CUstream);
using Memcpy3DWithAttributes = CUresult (*)(CUDA_MEMCPY3D_BATCH_OP*, unsigned long long, CUstream);
#endif

// --- 13.3
/// `CUgraphRecaptureCallback`, whose last argument is an enumeration.
using RecaptureCallback = CUresult (*)(void*, CUgraphNode, const CUgraphNodeParams*,
                                       const CUgraphNodeParams*, int status);
using BeginRecapture = CUresult (*)(CUstream, CUstreamCaptureMode, CUgraph, RecaptureCallback,
                                    void*);
using LogicalEndpointId = cuuint32_t;
using LogicalEndpointBindMem = CUresult (*)(LogicalEndpointId, CUdevice, cuuint64_t,
                                            CUmemGenericAllocationHandle, cuuint64_t, cuuint64_t,
                                            unsigned long long);
using LogicalEndpointBindAddr = CUresult (*)(LogicalEndpointId, CUdevice, cuuint64_t, void*,
                                             cuuint64_t, unsigned long long);

// --- 13.4: the arguments of earlier versions, of a larger union of nodes
using AddNodeOfUnion = PFN_cuGraphAddNode_v12030;
using SetNodeOfUnion = PFN_cuGraphNodeSetParams_v12020;

// --- 13.5
/// `CUfabricCpyOperand`.
struct FabricOperand {
  static constexpr int pointer = 1;  ///< The other type is an endpoint.
  int type;
  union {
    struct {
      CUdeviceptr ptr;
      CUmemLocation hint;
    } ptr;
    struct {
      LogicalEndpointId id;
      cuuint64_t offset;
    } endpoint;
  } op;
};
/// `CUDA_FABRIC_COPY_BATCH_OP`.
struct FabricCopy {
  FabricOperand src;
  FabricOperand dst;
  std::size_t size;
  unsigned flags;
};
using FabricCopyBatch = CUresult (*)(std::size_t, FabricCopy*, unsigned long long, CUstream);

#if CUDA_VERSION >= 13010
static_assert(std::is_same_v<MulticastBindMemOfDevice, PFN_cuMulticastBindMem_v13010>);
static_assert(std::is_same_v<MulticastBindAddrOfDevice, PFN_cuMulticastBindAddr_v13010>);
#endif
#if CUDA_VERSION >= 13020
static_assert(std::is_same_v<EndCaptureToCig, decltype(&cuStreamEndCaptureToCig)>);
static_assert(std::is_same_v<LaunchHostFuncWithMode, PFN_cuLaunchHostFunc_v13010>);
static_assert(std::is_same_v<MemcpyWithAttributes, PFN_cuMemcpyWithAttributesAsync_v13020>);
static_assert(std::is_same_v<Memcpy3DWithAttributes, PFN_cuMemcpy3DWithAttributesAsync_v13020>);
#endif
#if CUDA_VERSION >= 13030
/// The header's type with its own names for a callback's status.
template <typename Type>
struct Plain;
template <typename Status>
struct Plain<CUresult (*)(
    CUstream, CUstreamCaptureMode, CUgraph,
    CUresult (*)(void*, CUgraphNode, const CUgraphNodeParams*, const CUgraphNodeParams*, Status),
    void*)> {
  static_assert(std::is_enum_v<Status> && sizeof(Status) == sizeof(int));
  using Type = BeginRecapture;
};
static_assert(
    std::is_same_v<BeginRecapture, Plain<PFN_cuStreamBeginRecaptureToGraph_v13030>::Type>);
static_assert(std::is_same_v<LogicalEndpointBindMem, PFN_cuLogicalEndpointBindMem_v13030>);
static_assert(std::is_same_v<LogicalEndpointBindAddr, PFN_cuLogicalEndpointBindAddr_v13030>);
#endif
#if CUDA_VERSION >= 13040
static_assert(std::is_same_v<AddNodeOfUnion, PFN_cuGraphAddNode_v13040>);
static_assert(std::is_same_v<SetNodeOfUnion, PFN_cuGraphNodeSetParams_v13040>);
#endif
#if CUDA_VERSION >= 13050
static_assert(sizeof(FabricOperand) == sizeof(CUfabricCpyOperand) &&
              offsetof(FabricOperand, op) == offsetof(CUfabricCpyOperand, op) &&
              FabricOperand::pointer == CU_FABRIC_COPY_OPERAND_TYPE_POINTER);
static_assert(sizeof(FabricCopy) == sizeof(CUDA_FABRIC_COPY_BATCH_OP) &&
              offsetof(FabricCopy, dst) == offsetof(CUDA_FABRIC_COPY_BATCH_OP, dst) &&
              offsetof(FabricCopy, size) == offsetof(CUDA_FABRIC_COPY_BATCH_OP, size));
template <typename Copy>
CUresult fabric_arguments(CUresult (*)(std::size_t, Copy*, unsigned long long, CUstream));
static_assert(requires(PFN_cuFabricCpyBatchAsync_v13050 call) { fabric_arguments(call); });
#endif

}  // namespace vma
