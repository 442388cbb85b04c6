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

SIM_CUDA_CALL(cuGraphAddMemsetNode,
              (CUgraphNode * node, CUgraph graph, const CUgraphNode*, std::size_t,
               const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext),
              (node, graph, nullptr, 0, parameters, nullptr)) {
  required(node);
  const auto owner = graphs().graphs.at(graph, CUDA_ERROR_INVALID_VALUE);
  if (owner->capturing || !is_none(owner->captured) || !owner->steps.empty()) {
    refuse(CUDA_ERROR_NOT_SUPPORTED);
  }
  const auto made =
      std::make_shared<Node>(Node{owner.get(), owner->fills.size(), CU_GRAPH_NODE_TYPE_MEMSET});
  owner->fills.push_back(checked(parameters));
  owner->nodes.push_back(native_of<CUgraphNode>(graphs().nodes.add(made)));
  *node = owner->nodes.back();
}
SIM_CUDA_CALL(cuGraphMemsetNodeGetParams, (CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* parameters),
              (node, parameters)) {
  const auto known = graphs().nodes.at(node, CUDA_ERROR_INVALID_VALUE);
  if (known->type != CU_GRAPH_NODE_TYPE_MEMSET) refuse(CUDA_ERROR_INVALID_VALUE);
  *required(parameters) = known->graph->fills.at(known->step);
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
// Of other graphs it is not supported: programs then instantiate the graph anew.
SIM_CUDA_CALL(cuGraphExecUpdate_v2,
              (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info),
              (exec, graph, info)) {
  const auto updated = graphs().exec_graphs.at(exec, CUDA_ERROR_INVALID_VALUE);
  const auto source = graphs().graphs.at(graph, CUDA_ERROR_INVALID_VALUE);
  *required(info) = {};
  const auto fail = [&](CUgraphExecUpdateResult why) {
    info->result = why;
    refuse(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  };
  if (updated->fills.empty()) fail(CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED);
  if (updated->fills.size() != source->fills.size()) {
    fail(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  }
  std::vector<Fill> fills = updated->fills;
  for (std::size_t i = 0; i < fills.size(); ++i) {
    if (home_of(source->fills[i]) != fills[i].home) {
      fail(CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
    }
    fills[i].what = source->fills[i];
  }
  updated->fills = std::move(fills);
}

}  // namespace vma
