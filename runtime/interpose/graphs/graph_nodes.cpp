#include "interpose/graphs/graph_nodes.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace vma::interpose {
namespace {

constexpr int depth_max = 16;  // Of child graphs within each other.

}  // namespace

GraphNodeReader::GraphNodeReader(const DriverLibrary& driver, const Uses& uses,
                                 Reads reads) noexcept
    : driver_(driver), uses_(uses), reads_(reads), here_(current_gpu()) {}

std::vector<GraphNode> GraphNodeReader::nodes_of(CUgraph graph) {
  std::vector<GraphNode> nodes;
  append_nodes(graph, 0, nodes);
  return nodes;
}

void GraphNodeReader::append_nodes(CUgraph graph, int depth, std::vector<GraphNode>& out) {
  std::size_t count = 0;
  if (depth >= depth_max || driver_.cuGraphGetNodes_plain == nullptr ||
      driver_.cuGraphGetNodes_plain(graph, nullptr, &count) != CUDA_SUCCESS || count == 0) {
    return;
  }
  std::vector<CUgraphNode> handles(count);
  if (driver_.cuGraphGetNodes_plain(graph, handles.data(), &count) != CUDA_SUCCESS) return;
  for (std::size_t i = 0; i < std::min(count, handles.size()); ++i) {
    const std::size_t place = out.size();
    GraphNode node;
    node.handle = handles[i];
    out.push_back({});
    read(node, depth, out);
    node.nested = out.size() - place - 1;
    out[place] = std::move(node);
  }
}

void GraphNodeReader::read(GraphNode& node, int depth, std::vector<GraphNode>& out) {
  CUgraphNodeType type{};
  if (driver_.cuGraphNodeGetType_plain(node.handle, &type) != CUDA_SUCCESS) return;
  const auto read_with = [&](auto query, auto parameters) {
    if (query != nullptr && query(node.handle, &parameters) == CUDA_SUCCESS) {
      node.uses = uses_of(parameters);
    }
  };
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      node.uses.is_kernel = true;
      node.uses.gpu = here_;  // If the driver does not describe it.
      if (reads_ == Reads::copies_and_fills) return;
      return read_with(driver_.cuGraphKernelNodeGetParams_v2_plain, CUDA_KERNEL_NODE_PARAMS_v2{});
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return read_with(driver_.cuGraphMemcpyNodeGetParams_plain, CUDA_MEMCPY3D{});
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return read_with(driver_.cuGraphMemsetNodeGetParams_plain, CUDA_MEMSET_NODE_PARAMS_v1{});
    case CU_GRAPH_NODE_TYPE_GRAPH: {
      CUgraph child = nullptr;
      if (driver_.cuGraphChildGraphNodeGetGraph_plain(node.handle, &child) != CUDA_SUCCESS) return;
      return append_nodes(child, depth + 1, out);
    }
    case CU_GRAPH_NODE_TYPE_HOST:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: return;
    default:  // A conditional node, or one of a newer driver: a kernel that shows nothing.
      node.uses.is_kernel = true;
      node.uses.gpu = here_;
  }
}

int GraphNodeReader::gpu_of(CUcontext context) noexcept {
  if (context == nullptr) return here_;
  if (context != last_) {
    const PushedContext pushed(driver_, context);
    gpu_of_last_ = pushed ? current_gpu() : here_;
    last_ = context;
  }
  return gpu_of_last_;
}

NodeUses GraphNodeReader::kernel_uses(CUfunction function, CUcontext context, void** parameters,
                                      void** extra) {
  NodeUses found;
  found.is_kernel = true;
  found.gpu_is_told = context != nullptr;
  found.gpu = gpu_of(context);
  std::array<vmart_use, Uses::launch_uses_max> uses;
  const std::size_t count = Uses::find_of_launch(function, parameters, extra, found.gpu, uses);
  found.uses.assign(uses.begin(), uses.begin() + static_cast<std::ptrdiff_t>(count));
  return found;
}

}  // namespace vma::interpose
