#pragma once

#include <cuda.h>

#include <vector>

namespace vma::interpose {

/// What the graph and its child graphs copy and fill; what else is in it does not count.
std::vector<CUdeviceptr> operands_of(CUgraph graph);
/// What of the operands has left the GPU where the program believes it returns there. Returns false
/// if none of them can move. Blocks: for a move.
bool bring_home(const std::vector<CUdeviceptr>& operands);

}  // namespace vma::interpose
