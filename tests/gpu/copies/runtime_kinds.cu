// Copies by CUDA's runtime, which has fetched the driver's functions before vmart opens.
#include "gpu/copies/copies.hpp"

#include <cuda_runtime_api.h>

namespace {

cudaStream_t in(const Operands& on) {
  return static_cast<cudaStream_t>(on.stream);
}

cudaMemcpy3DParms layers(const Operands& on) {
  cudaMemcpy3DParms copy{};
  copy.srcPtr = {on.source, row_bytes, row_bytes, row_count / layer_count};
  copy.dstPtr = {on.target, row_bytes, row_bytes, row_count / layer_count};
  copy.extent = {row_bytes, row_count / layer_count, layer_count};
  copy.kind = cudaMemcpyDefault;
  return copy;
}

template <typename AddNode>
int graph_of(const Operands& on, AddNode add) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  cudaGraphNode_t node = nullptr;
  if (const int result = cudaGraphCreate(&graph, 0)) return result;
  int result = add(&node, graph);
  if (result == cudaSuccess) result = cudaGraphInstantiateWithFlags(&exec, graph, 0);
  if (result == cudaSuccess) result = cudaGraphLaunch(exec, in(on));
  if (exec != nullptr) cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  return result;
}

int graph_copy(const Operands& on) {
  return graph_of(on, [&](cudaGraphNode_t* node, cudaGraph_t graph) {
    return cudaGraphAddMemcpyNode1D(node, graph, nullptr, 0, on.target, on.source, copied_bytes,
                                    cudaMemcpyDefault);
  });
}

int graph_fill(const Operands& on) {
  return graph_of(on, [&](cudaGraphNode_t* node, cudaGraph_t graph) {
    cudaMemsetParams fill{};
    fill.dst = on.target;
    fill.value = filled_value;
    fill.elementSize = 1;
    fill.width = copied_bytes;
    fill.height = 1;
    return cudaGraphAddMemsetNode(node, graph, nullptr, 0, &fill);
  });
}

int copy_in_capture(const Operands& on) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  if (const int result = cudaStreamBeginCapture(in(on), cudaStreamCaptureModeThreadLocal)) {
    return result;
  }
  int result = cudaMemcpyAsync(on.target, on.source, copied_bytes, cudaMemcpyDefault, in(on));
  const int ended = cudaStreamEndCapture(in(on), &graph);
  if (result == cudaSuccess) result = ended;
  if (result == cudaSuccess) result = cudaGraphInstantiateWithFlags(&exec, graph, 0);
  if (result == cudaSuccess) result = cudaGraphLaunch(exec, in(on));
  if (exec != nullptr) cudaGraphExecDestroy(exec);
  if (graph != nullptr) cudaGraphDestroy(graph);
  return result;
}

int look_up(const Operands& on) {
  cudaPointerAttributes known{};
  if (const int result = cudaPointerGetAttributes(&known, on.source)) return result;
  return known.type == cudaMemoryTypeUnregistered ? cudaErrorInvalidValue : cudaSuccess;
}

#if CUDART_VERSION >= 12080
int copy_batch(const Operands& on) {
  std::size_t bytes = copied_bytes, first = 0;
  cudaMemcpyAttributes how{};
  how.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
#if CUDART_VERSION >= 13000
  const void* source = on.source;
  void* target = on.target;
  return cudaMemcpyBatchAsync(&target, &source, &bytes, 1, &how, &first, 1, in(on));
#else
  void *source = on.source, *target = on.target;
  std::size_t failed = 0;
  return cudaMemcpyBatchAsync(&target, &source, &bytes, 1, &how, &first, 1, &failed, in(on));
#endif
}
#endif

}  // namespace

std::vector<Kind> runtime_kinds() {
  std::vector<Kind> kinds = {
      {"cudaMemcpy", Leaves::source_in_target,
       [](const Operands& on) {
         return cudaMemcpy(on.target, on.source, copied_bytes, cudaMemcpyDefault);
       }},
      {"cudaMemcpy to the host", Leaves::source_in_host,
       [](const Operands& on) {
         return cudaMemcpy(on.host, on.source, copied_bytes, cudaMemcpyDeviceToHost);
       }},
      {"cudaMemcpyAsync", Leaves::source_in_target,
       [](const Operands& on) {
         return cudaMemcpyAsync(on.target, on.source, copied_bytes, cudaMemcpyDeviceToDevice,
                                in(on));
       }},
      {"cudaMemcpyAsync from the host", Leaves::host_in_target,
       [](const Operands& on) {
         return cudaMemcpyAsync(on.target, on.host, copied_bytes, cudaMemcpyHostToDevice, in(on));
       }},
      {"cudaMemcpyAsync to the host", Leaves::source_in_host,
       [](const Operands& on) {
         return cudaMemcpyAsync(on.host, on.source, copied_bytes, cudaMemcpyDeviceToHost, in(on));
       }},
      {"cudaMemcpyAsync (default)", Leaves::source_in_target,
       [](const Operands& on) {
         return cudaMemcpyAsync(on.target, on.source, copied_bytes, cudaMemcpyDefault, in(on));
       }},
      {"cudaMemcpyPeerAsync", Leaves::source_in_target,
       [](const Operands& on) {
         return cudaMemcpyPeerAsync(on.target, 0, on.source, 0, copied_bytes, in(on));
       }},
      {"cudaMemcpy2DAsync", Leaves::source_in_target,
       [](const Operands& on) {
         return cudaMemcpy2DAsync(on.target, row_bytes, on.source, row_bytes, row_bytes, row_count,
                                  cudaMemcpyDefault, in(on));
       }},
      {"cudaMemcpy3DAsync", Leaves::source_in_target,
       [](const Operands& on) {
         const cudaMemcpy3DParms copy = layers(on);
         return cudaMemcpy3DAsync(&copy, in(on));
       }},
      {"cudaMemset", Leaves::value_in_target,
       [](const Operands& on) { return cudaMemset(on.target, filled_value, copied_bytes); }},
      {"cudaMemsetAsync", Leaves::value_in_target,
       [](const Operands& on) {
         return cudaMemsetAsync(on.target, filled_value, copied_bytes, in(on));
       }},
      {"cudaMemset2DAsync", Leaves::value_in_target,
       [](const Operands& on) {
         return cudaMemset2DAsync(on.target, row_bytes, filled_value, row_bytes, row_count, in(on));
       }},
      {"cudaGraphAddMemcpyNode1D, launched", Leaves::source_in_target, graph_copy},
      {"cudaGraphAddMemsetNode, launched", Leaves::value_in_target, graph_fill},
      {"cudaMemcpyAsync in a capture, launched", Leaves::source_in_target, copy_in_capture},
      {"cudaPointerGetAttributes", Leaves::nothing, look_up},
  };
#if CUDART_VERSION >= 12080
  kinds.push_back({"cudaMemcpyBatchAsync", Leaves::source_in_target, copy_batch});
#endif
  return kinds;
}
