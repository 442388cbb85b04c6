// Copies by the driver's interface: by the symbols that the program is linked with, and by
// functions that it has looked up.
#include "gpu/copies/copies.hpp"

#include <cuda.h>
#include <cudaTypedefs.h>

#include <dlfcn.h>

#include <cstdint>
#include <memory>

namespace {

CUdeviceptr at(const char* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}
CUstream in(const Operands& on) {
  return static_cast<CUstream>(on.stream);
}

CUcontext context = nullptr;

CUDA_MEMCPY2D rows(const Operands& on) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = at(on.source);
  copy.dstDevice = at(on.target);
  copy.srcPitch = copy.dstPitch = copy.WidthInBytes = row_bytes;
  copy.Height = row_count;
  return copy;
}

/// `type`: with `CU_MEMORYTYPE_UNIFIED`, the driver finds out what the operands are.
CUDA_MEMCPY3D layers(const Operands& on, CUmemorytype type) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = type;
  copy.srcDevice = at(on.source);
  copy.dstDevice = at(on.target);
  copy.srcPitch = copy.dstPitch = copy.WidthInBytes = row_bytes;
  copy.srcHeight = copy.dstHeight = copy.Height = row_count / layer_count;
  copy.Depth = layer_count;
  return copy;
}

CUDA_MEMSET_NODE_PARAMS fill_of(const Operands& on) {
  CUDA_MEMSET_NODE_PARAMS fill{};
  fill.dst = at(on.target);
  fill.value = filled_value;
  fill.elementSize = 1;
  fill.width = copied_bytes;
  fill.height = 1;
  return fill;
}

/// The first error of several calls.
int first_error(std::initializer_list<CUresult> results) {
  for (const CUresult result : results) {
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

/// A graph of one node, which is launched and destroyed.
template <typename AddNode>
int graph_of(const Operands& on, AddNode add) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode node = nullptr;
  if (const CUresult result = cuGraphCreate(&graph, 0)) return result;
  int result = add(&node, graph);
  if (result == CUDA_SUCCESS) result = cuGraphInstantiateWithFlags(&exec, graph, 0);
  if (result == CUDA_SUCCESS) result = cuGraphLaunch(exec, in(on));
  const int ended = first_error(
      {exec != nullptr ? cuGraphExecDestroy(exec) : CUDA_SUCCESS, cuGraphDestroy(graph)});
  return result != CUDA_SUCCESS ? result : ended;
}

int graph_copy(const Operands& on) {
  return graph_of(on, [&](CUgraphNode* node, CUgraph graph) {
    const CUDA_MEMCPY3D copy = layers(on, CU_MEMORYTYPE_DEVICE);
    return cuGraphAddMemcpyNode(node, graph, nullptr, 0, &copy, context);
  });
}

int graph_fill(const Operands& on) {
  return graph_of(on, [&](CUgraphNode* node, CUgraph graph) {
    const CUDA_MEMSET_NODE_PARAMS fill = fill_of(on);
    return cuGraphAddMemsetNode(node, graph, nullptr, 0, &fill, context);
  });
}

int look_up(const Operands& on) {
  CUmemorytype type{};
  CUdevice ordinal = -1;
  void* wanted[] = {&type, &ordinal};
  CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  if (const CUresult result = cuPointerGetAttributes(2, names, wanted, at(on.source)))
    return result;
  // Of memory that is not known, the driver says nothing.
  return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_HOST ? 0 : CUDA_ERROR_INVALID_VALUE;
}

std::vector<Kind> linked_kinds() {
  return {
      {"cuMemcpyDtoD", Leaves::source_in_target,
       [](const Operands& on) { return cuMemcpyDtoD(at(on.target), at(on.source), copied_bytes); }},
      {"cuMemcpyHtoD", Leaves::host_in_target,
       [](const Operands& on) { return cuMemcpyHtoD(at(on.target), on.host, copied_bytes); }},
      {"cuMemcpyDtoH", Leaves::source_in_host,
       [](const Operands& on) { return cuMemcpyDtoH(on.host, at(on.source), copied_bytes); }},
      {"cuMemcpy", Leaves::source_in_target,
       [](const Operands& on) { return cuMemcpy(at(on.target), at(on.source), copied_bytes); }},
      {"cuMemcpyDtoDAsync", Leaves::source_in_target,
       [](const Operands& on) {
         return cuMemcpyDtoDAsync(at(on.target), at(on.source), copied_bytes, in(on));
       }},
      {"cuMemcpyHtoDAsync", Leaves::host_in_target,
       [](const Operands& on) {
         return cuMemcpyHtoDAsync(at(on.target), on.host, copied_bytes, in(on));
       }},
      {"cuMemcpyDtoHAsync", Leaves::source_in_host,
       [](const Operands& on) {
         return cuMemcpyDtoHAsync(on.host, at(on.source), copied_bytes, in(on));
       }},
      {"cuMemcpyAsync", Leaves::source_in_target,
       [](const Operands& on) {
         return cuMemcpyAsync(at(on.target), at(on.source), copied_bytes, in(on));
       }},
      {"cuMemcpyPeerAsync", Leaves::source_in_target,
       [](const Operands& on) {
         return cuMemcpyPeerAsync(at(on.target), context, at(on.source), context, copied_bytes,
                                  in(on));
       }},
      {"cuMemcpy2DAsync", Leaves::source_in_target,
       [](const Operands& on) {
         const CUDA_MEMCPY2D copy = rows(on);
         return cuMemcpy2DAsync(&copy, in(on));
       }},
      {"cuMemcpy3DAsync", Leaves::source_in_target,
       [](const Operands& on) {
         const CUDA_MEMCPY3D copy = layers(on, CU_MEMORYTYPE_DEVICE);
         return cuMemcpy3DAsync(&copy, in(on));
       }},
      {"cuMemcpy3DAsync (unified)", Leaves::source_in_target,
       [](const Operands& on) {
         const CUDA_MEMCPY3D copy = layers(on, CU_MEMORYTYPE_UNIFIED);
         return cuMemcpy3DAsync(&copy, in(on));
       }},
      {"cuMemsetD8", Leaves::value_in_target,
       [](const Operands& on) { return cuMemsetD8(at(on.target), filled_value, copied_bytes); }},
      {"cuMemsetD32Async", Leaves::value_in_target,
       [](const Operands& on) {
         return cuMemsetD32Async(at(on.target), filled_value * 0x01010101u, copied_bytes / 4,
                                 in(on));
       }},
      {"cuMemsetD2D8Async", Leaves::value_in_target,
       [](const Operands& on) {
         return cuMemsetD2D8Async(at(on.target), row_bytes, filled_value, row_bytes, row_count,
                                  in(on));
       }},
      {"cuStreamWriteValue64", Leaves::nothing,
       [](const Operands& on) { return cuStreamWriteValue64(in(on), at(on.target), 1, 0); }},
      {"cuGraphAddMemcpyNode, launched", Leaves::source_in_target, graph_copy},
      {"cuGraphAddMemsetNode, launched", Leaves::value_in_target, graph_fill},
      {"cuPointerGetAttributes", Leaves::nothing, look_up},
  };
}

void* driver_library() {
  return dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
}

/// One that was looked up. The driver may lack it.
template <typename Function>
Function looked_up(const char* symbol) {
  return reinterpret_cast<Function>(dlsym(driver_library(), symbol));
}

std::vector<Kind> found_kinds() {
  std::vector<Kind> kinds;
  if (const auto copy = looked_up<PFN_cuMemcpyAsync_v4000>("cuMemcpyAsync")) {
    kinds.push_back({"cuMemcpyAsync by dlsym", Leaves::source_in_target, [=](const Operands& on) {
                       return copy(at(on.target), at(on.source), copied_bytes, in(on));
                     }});
  }
  void* found = nullptr;
  const auto resolve = looked_up<PFN_cuGetProcAddress_v12000>("cuGetProcAddress_v2");
  CUdriverProcAddressQueryResult status{};
  if (resolve != nullptr &&
      resolve("cuMemsetD8Async", &found, 7000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
              &status) == CUDA_SUCCESS &&
      found != nullptr) {
    const auto fill = reinterpret_cast<PFN_cuMemsetD8Async_v7000_ptsz>(found);
    kinds.push_back({"cuMemsetD8Async_ptsz by cuGetProcAddress", Leaves::value_in_target,
                     [=](const Operands& on) {
                       return fill(at(on.target), filled_value, copied_bytes, in(on));
                     }});
  }
#if CUDA_VERSION >= 12080
  if (const auto batch = looked_up<PFN_cuMemcpyBatchAsync_v12080>("cuMemcpyBatchAsync")) {
    kinds.push_back(
        {"cuMemcpyBatchAsync by dlsym", Leaves::source_in_target, [=](const Operands& on) {
           CUdeviceptr target = at(on.target), source = at(on.source);
           std::size_t bytes = copied_bytes, first = 0, failed = 0;
           CUmemcpyAttributes how{};
           how.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
           return batch(&target, &source, &bytes, 1, &how, &first, 1, &failed, in(on));
         }});
  }
#endif
  return kinds;
}

}  // namespace

int begin_driver() {
  if (const int result = cuInit(0)) return result;
  if (const int result = cuDevicePrimaryCtxRetain(&context, 0)) return result;
  return cuCtxSetCurrent(context);
}

std::vector<Kind> driver_kinds() {
  std::vector<Kind> kinds = linked_kinds();
  for (Kind& kind : found_kinds()) kinds.push_back(std::move(kind));
  return kinds;
}

void* pinned_memory(std::size_t bytes) {
  void* pointer = nullptr;
  return cuMemHostAlloc(&pointer, bytes, CU_MEMHOSTALLOC_PORTABLE) == CUDA_SUCCESS ? pointer
                                                                                   : nullptr;
}

vmart_stream new_stream() {
  CUstream stream = nullptr;
  return cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS ? stream : nullptr;
}

int wait_for(vmart_stream stream) {
  return cuStreamSynchronize(static_cast<CUstream>(stream));
}
