// Nodes that fill memory, and updates of graphs that consist of them. As with the driver, an update
// fails if memory lies on another GPU than at the instantiation.
#include "support/cuda/graphs.hpp"
#include "support/cuda/library.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

namespace vma {
namespace {

Location home_of(const CUDA_MEMSET_NODE_PARAMS& what) {
  return sim().pointer_info(Address{what.dst}).at;
}

CUDA_MEMSET_NODE_PARAMS checked(const CUDA_MEMSET_NODE_PARAMS* parameters) {
  const CUDA_MEMSET_NODE_PARAMS& what = *required(parameters);
  if (what.elementSize != 1 || what.height != 1) refuse(CUDA_ERROR_NOT_SUPPORTED);
  home_of(what);
  return what;
}

void check_home(const Fill& fill, const CUDA_MEMSET_NODE_PARAMS& what) {
  if (home_of(what) != fill.home) refuse(CUDA_ERROR_INVALID_VALUE);
}

}  // namespace

std::vector<Fill> fills_of(const Graph& graph) {
  std::vector<Fill> fills;
  for (const CUDA_MEMSET_NODE_PARAMS& what : graph.fills) fills.push_back({what, home_of(what)});
  return fills;
}

void launch(const std::vector<Fill>& fills, BoundStream stream) {
  for (const Fill& fill : fills) {
    sim().fill(stream, Address{fill.what.dst}, static_cast<std::byte>(fill.what.value),
               fill.what.width);
  }
}

CUgraphExecUpdateResult update_fills(std::vector<Fill>& fills, const Graph& graph) {
  if (fills.size() != graph.fills.size()) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  std::vector<Fill> updated = fills;
  for (std::size_t i = 0; i < updated.size(); ++i) {
    if (home_of(graph.fills[i]) != updated[i].home) {
      return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    }
    updated[i].what = graph.fills[i];
  }
  fills = std::move(updated);
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

SIM_CUDA_CALL(cuGraphAddMemsetNode,
              (CUgraphNode * node, CUgraph graph, const CUgraphNode*, std::size_t,
               const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext),
              (node, graph, nullptr, 0, parameters, nullptr)) {
  required(node);
  const auto owner = graphs().graphs.at(graph, CUDA_ERROR_INVALID_VALUE);
  if (owner->capturing || !is_none(owner->captured) || !owner->steps.empty()) {
    refuse(CUDA_ERROR_NOT_SUPPORTED);
  }
  owner->fills.push_back(checked(parameters));
  *node = add_node_to(*owner, {owner.get(), owner->fills.size() - 1, CU_GRAPH_NODE_TYPE_MEMSET,
                               owner->fills.back()});
}
SIM_CUDA_CALL(cuGraphExecMemsetNodeSetParams,
              (CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* parameters,
               CUcontext),
              (exec, node, parameters, nullptr)) {
  const auto updated = graphs().exec_graphs.at(exec, CUDA_ERROR_INVALID_VALUE);
  const auto known = graphs().nodes.at(node, CUDA_ERROR_INVALID_VALUE);
  if (known->graph != updated->of || known->type != CU_GRAPH_NODE_TYPE_MEMSET) {
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
  const CUDA_MEMSET_NODE_PARAMS what = checked(parameters);
  check_home(updated->fills.at(known->step), what);
  updated->fills.at(known->step).what = what;
}
}  // namespace vma
