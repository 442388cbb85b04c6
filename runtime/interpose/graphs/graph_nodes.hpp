#pragma once

#include "abi/run_table.hpp"
#include "interpose/driver_library.hpp"
#include "interpose/uses.hpp"

#include <cuda.h>

#include <cstddef>
#include <vector>

namespace vma::interpose {

/// What one node of a graph uses each time that it runs.
struct NodeUses {
  bool is_kernel = false;    ///< Or something that may use as much.
  bool gpu_is_told = false;  ///< By the driver; otherwise it is that of the calling thread.
  int gpu = -1;
  std::vector<vmart_use> uses;
};

struct GraphNode {
  CUgraphNode handle = nullptr;
  std::size_t nested = 0;  ///< Nodes of a child graph, which follow it.
  bool enabled = true;
  NodeUses uses;
};

/// Reads what the nodes of graphs use. Kernels that the driver does not describe, conditional
/// nodes, whose bodies it does not tell, and nodes of an unknown type count as kernels that show
/// nothing. Copies and fills count on the GPU of the current context; without one, on the GPU on
/// which the program allocated what they touch. One thread. Requires: vmart is loaded.
class GraphNodeReader {
 public:
  enum class Reads {
    all,
    copies_and_fills,  ///< Then kernels show nothing.
  };

  GraphNodeReader(const DriverLibrary& driver, const Uses& uses, Reads reads = Reads::all) noexcept;

  /// All nodes of the graph, those of a child graph behind the node that has it. Throws:
  /// std::bad_alloc.
  std::vector<GraphNode> nodes_of(CUgraph graph);
  /// Of a node with these parameters: those of any version of kernels, copies or fills.
  template <typename Parameters>
  NodeUses uses_of(const Parameters& parameters);

 private:
  void append_nodes(CUgraph graph, int depth, std::vector<GraphNode>& out);
  void read(GraphNode& node, int depth, std::vector<GraphNode>& out);
  int gpu_of(CUcontext context) noexcept;
  NodeUses kernel_uses(CUfunction function, CUcontext context, void** parameters, void** extra);

  const DriverLibrary& driver_;
  const Uses& uses_;
  const Reads reads_;
  const int here_;  // The GPU of the current context; negative without one.
  CUcontext last_ = nullptr;
  int gpu_of_last_ = -1;
};

// --- Implementation

template <typename Parameters>
NodeUses GraphNodeReader::uses_of(const Parameters& given) {
  NodeUses found;
  found.gpu = here_;
  if constexpr (requires { given.kern; }) {
    CUfunction function = given.func;
    // The driver takes a CUkernel for a CUfunction, and so does vmart.
    if (function == nullptr) function = reinterpret_cast<CUfunction>(given.kern);
    return kernel_uses(function, given.ctx, given.kernelParams, given.extra);
  } else if constexpr (requires { given.func; }) {
    return kernel_uses(given.func, nullptr, given.kernelParams, given.extra);
  } else if constexpr (requires { given.elementSize; }) {
    uses_.append(
        range_of_fill(given.dst, given.pitch, given.elementSize, given.width, given.height), here_,
        found.uses);
  } else {
    ranges_of_copy(given,
                   [&](const MemoryRange& range) { uses_.append(range, here_, found.uses); });
  }
  return found;
}

}  // namespace vma::interpose
