#pragma once

#include "driver/cuda_api.hpp"
#include "driver/driver.hpp"

#include <atomic>
#include <memory>
#include <vector>

namespace vma {

/// The driver's types behind the handles of `Driver`.
inline CUcontext native(ContextHandle context) {
  return reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(context));
}
inline CUevent native(EventHandle event) {
  return reinterpret_cast<CUevent>(static_cast<std::uintptr_t>(event));
}
inline CUdeviceptr native(Address address) {
  return to_integer(address);
}
inline CUmemGenericAllocationHandle native(ChunkHandle chunk) {
  return static_cast<CUmemGenericAllocationHandle>(chunk);
}
/// Handle zero is the legacy stream, passed by name, because a macro determines what zero means.
inline CUstream native(StreamHandle stream) {
  if (is_none(stream)) return CU_STREAM_LEGACY;
  return reinterpret_cast<CUstream>(static_cast<std::uintptr_t>(stream));
}

template <typename Handle, typename Native>
Handle handle_of(Native* pointer) {
  return Handle{reinterpret_cast<std::uintptr_t>(pointer)};
}

/// A module, and how many of its kernels are loaded.
struct CudaModule {
  CUmodule module = nullptr;
  std::atomic<int> kernels{0};
};

/// The object behind a KernelHandle.
struct CudaKernel {
  CUcontext context = nullptr;
  std::shared_ptr<CudaModule> code;
  CUfunction function = nullptr;
};

/// The object behind a GraphHandle. Instantiating needs a context, which the graph does not name.
struct CudaGraph {
  CUcontext context;
  CUgraph graph;
};

/// The object behind an ExecGraphHandle. For a chain, also keeps its graph, because updates refer
/// to the nodes. A chain that stops a stream has no graph before it is launched as one.
struct CudaExecGraph {
  CUcontext context = nullptr;
  CUgraphExec exec = nullptr;
  CUgraph graph = nullptr;
  std::vector<CUgraphNode> nodes;
  std::vector<std::vector<WordOperation::Kind>> words;  // Per step; empty for a kernel.
  // For a chain that stops a stream: the kernel that performs `stop_words`.
  CUfunction stopper = nullptr;
  std::vector<WordOperation> stop_words;
};

template <typename Kept, typename Handle>
Kept* kept(Handle handle) {
  return reinterpret_cast<Kept*>(static_cast<std::uintptr_t>(handle));
}

inline CUstreamBatchMemOpParams native_operation(const WordOperation& operation) {
  CUstreamBatchMemOpParams params{};
  if (operation.kind == WordOperation::Kind::write) {
    params.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    params.writeValue.address = to_integer(operation.word);
    params.writeValue.value64 = operation.value;
    params.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
  } else {
    params.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
    params.waitValue.address = to_integer(operation.word);
    params.waitValue.value64 = operation.value;
    params.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
  }
  return params;
}

inline CUmemLocation native_location(Place at) {
  CUmemLocation location{};
  location.type =
      at.kind == Place::Kind::gpu ? CU_MEM_LOCATION_TYPE_DEVICE : CU_MEM_LOCATION_TYPE_HOST_NUMA;
  location.id = at.ordinal;
  return location;
}

inline CUmemAllocationProp chunk_properties(Place at, ExportTypes types = {}) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = native_location(at);
  unsigned int handles = CU_MEM_HANDLE_TYPE_NONE;
  if (types.descriptor) handles |= CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  if (types.fabric) handles |= CU_MEM_HANDLE_TYPE_FABRIC;
  properties.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(handles);
  if (types.rdma) properties.allocFlags.gpuDirectRDMACapable = 1;
  return properties;
}

}  // namespace vma
