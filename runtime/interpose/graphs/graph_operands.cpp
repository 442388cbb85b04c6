#include "interpose/graphs/graph_operands.hpp"

#include "interpose/driver_library.hpp"
#include "interpose/graphs/graph_nodes.hpp"
#include "interpose/program_memory.hpp"
#include "interpose/vmart_library.hpp"

#include <map>

namespace vma::interpose {
namespace {

/// Leaves kernels unread, whose layouts vmart would keep although nobody may tell it of unloads.
GraphNodeReader reader() noexcept {
  return GraphNodeReader(*DriverLibrary::get(), GraphNodeReader::Reads::copies_and_fills);
}

}  // namespace

std::vector<vmart_use> operands_of(CUgraph graph) {
  std::vector<vmart_use> operands;
  for (const GraphNode& node : reader().nodes_of(graph)) {
    operands.insert(operands.end(), node.uses.uses.begin(), node.uses.uses.end());
  }
  return operands;
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
    case CU_GRAPH_NODE_TYPE_GRAPH: return operands_of(node->graph.graph);
    default: return {};
  }
}

bool bring_home(const std::vector<vmart_use>& operands) {
  std::map<CUdeviceptr, int> homes;  // Each allocation once.
  for (const vmart_use& operand : operands) {
    const auto inside = reinterpret_cast<CUdeviceptr>(operand.address);
    if (const auto memory = ProgramMemory::get().find(inside)) {
      homes.emplace(memory->begin, memory->device);
    }
  }
  bool moved = false;
  for (const auto& [begin, device] : homes) {
    const vmart_status status = VmartLibrary::loaded()->vmart_migrate(
        reinterpret_cast<void*>(begin), 0, 0, {VMART_GPU, device}, nullptr);
    moved = moved || status == VMART_OK;
  }
  return moved;
}

}  // namespace vma::interpose
