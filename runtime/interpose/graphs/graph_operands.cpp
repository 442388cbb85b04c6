#include "interpose/graphs/graph_operands.hpp"

#include "interpose/driver_library.hpp"
#include "interpose/graphs/graph_nodes.hpp"

namespace vma::interpose {
namespace {

/// Leaves kernels unread, whose layouts vmart would keep although nobody may tell it of unloads.
GraphNodeReader reader() noexcept {
  return GraphNodeReader(*DriverLibrary::get(), GraphNodeReader::Reads::copies_and_fills);
}

}  // namespace

std::vector<GraphNode> copies_and_fills_of(CUgraph graph) {
  return reader().nodes_of(graph);
}

std::vector<vmart_use> operands_of(const CUDA_MEMCPY3D* copy) {
  return copy != nullptr ? reader().uses_of(*copy).uses : std::vector<vmart_use>();
}

std::vector<vmart_use> operands_of(const CUDA_MEMSET_NODE_PARAMS* fill) {
  return fill != nullptr ? reader().uses_of(*fill).uses : std::vector<vmart_use>();
}

std::vector<vmart_use> operands_of(const CUgraphNodeParams* node) {
  switch (node != nullptr ? node->type : CU_GRAPH_NODE_TYPE_EMPTY) {
    case CU_GRAPH_NODE_TYPE_MEMCPY: return operands_of(&node->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET: return reader().uses_of(node->memset).uses;
    default: return {};
  }
}

}  // namespace vma::interpose
