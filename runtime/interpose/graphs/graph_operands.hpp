#pragma once

#include "abi/run_table.hpp"
#include "interpose/graphs/graph_nodes.hpp"

#include <cuda.h>

#include <vector>

namespace vma::interpose {

/// The nodes of the graph and its child graphs; only copies and fills show what they use.
/// Requires: vmart is loaded. Throws: std::bad_alloc.
std::vector<GraphNode> copies_and_fills_of(CUgraph graph);
/// The memory of vmart that a node with these parameters copies and fills; they may be null.
/// Requires and throws: the same.
std::vector<vmart_use> operands_of(const CUDA_MEMCPY3D* copy);
std::vector<vmart_use> operands_of(const CUDA_MEMSET_NODE_PARAMS* fill);
std::vector<vmart_use> operands_of(const CUgraphNodeParams* node);

}  // namespace vma::interpose
