#pragma once

#include <vma/vmart_uses.h>

#include <cuda.h>

#include <vector>

namespace vma::interpose {

/// The memory of vmart that the nodes copy and fill: those of the graph and its child graphs, or
/// one with these parameters, which may be null. Kernels have no operands. Requires: vmart is
/// loaded. Throws: std::bad_alloc.
std::vector<vmart_use> operands_of(CUgraph graph);
std::vector<vmart_use> operands_of(const CUDA_MEMCPY3D* copy);
std::vector<vmart_use> operands_of(const CUDA_MEMSET_NODE_PARAMS* fill);
std::vector<vmart_use> operands_of(const CUgraphNodeParams* node);

/// Moves what contains the operands back to the GPUs on which the program believes it to be.
/// Returns false if none of it can move. Blocks: for a move.
bool bring_home(const std::vector<vmart_use>& operands);

}  // namespace vma::interpose
