// What programs may ask about the nodes of graphs. Of a captured graph these are its kernels,
// copies and fills.
#include "simcuda/graphs.hpp"

#include <algorithm>

namespace vma {
namespace {

std::shared_ptr<Node> node_of(CUgraphNode node) {
  return graphs().nodes.at(node, CUDA_ERROR_INVALID_VALUE);
}

/// Throws: Refusal{INVALID_VALUE} for a node of another type.
template <typename Contents>
Contents& contents(Node& node) {
  auto* const found = std::get_if<Contents>(&node.contents);
  return *required(found);
}

template <typename Parameters>
void tell_kernel(CUgraphNode handle, Parameters* out) {
  const auto node = node_of(handle);
  NodeKernel& kernel = contents<NodeKernel>(*node);
  *required(out) = {};
  out->func = kernel.function;
  out->gridDimX = kernel.shape.grid.x;
  out->gridDimY = kernel.shape.grid.y;
  out->gridDimZ = kernel.shape.grid.z;
  out->blockDimX = kernel.shape.block.x;
  out->blockDimY = kernel.shape.block.y;
  out->blockDimZ = kernel.shape.block.z;
  out->kernelParams = kernel.pointers.data();
  if constexpr (requires { out->ctx; }) out->ctx = kernel.context;
}

}  // namespace

SIMCUDA_CALL(cuGraphNodeGetType, (CUgraphNode node, CUgraphNodeType* type), (node, type)) {
  *required(type) = node_of(node)->type;
}
SIMCUDA_CALL(cuGraphGetNodes, (CUgraph graph, CUgraphNode* nodes, std::size_t* count),
             (graph, nodes, count)) {
  const auto owner = graphs().graphs.at(graph, CUDA_ERROR_INVALID_VALUE);
  if (nodes == nullptr) {
    *required(count) = owner->nodes.size();
    return;
  }
  std::copy_n(owner->nodes.begin(), std::min(*required(count), owner->nodes.size()), nodes);
}
SIMCUDA_CALL(cuGraphKernelNodeGetParams, (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* out),
             (node, out)) {
  tell_kernel(node, out);
}
SIMCUDA_CALL(cuGraphKernelNodeGetParams_v2, (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2* out),
             (node, out)) {
  tell_kernel(node, out);
}
SIMCUDA_CALL(cuGraphMemcpyNodeGetParams, (CUgraphNode node, CUDA_MEMCPY3D* out), (node, out)) {
  *required(out) = contents<CUDA_MEMCPY3D>(*node_of(node));
}
SIMCUDA_CALL(cuGraphMemsetNodeGetParams, (CUgraphNode node, CUDA_MEMSET_NODE_PARAMS_v1* out),
             (node, out)) {
  *required(out) = contents<CUDA_MEMSET_NODE_PARAMS_v1>(*node_of(node));
}
SIMCUDA_CALL(cuGraphChildGraphNodeGetGraph, (CUgraphNode node, CUgraph* out), (node, out)) {
  contents<std::shared_ptr<Graph>>(*node_of(node));
  *required(out) = node_of(node)->child;
}

}  // namespace vma
