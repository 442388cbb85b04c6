// Graphs, whose nodes are read when they become executable or change, and counted at each launch.
#include "interpose/driver_library.hpp"
#include "interpose/hooks/hook.hpp"

#include <exception>
#include <vector>

namespace vma::interpose {
namespace {

template <EntryPoint entry, typename... Args>
CUresult instantiate(CUgraphExec* out, CUgraph graph, Args... args) noexcept try {
  const bool moves = VmartLibrary::loaded() != nullptr;
  const auto nodes =
      moves ? program().graph_places.copies_and_fills_of(graph) : std::vector<GraphNode>();
  const CUresult result = with_room(RoomNeed::in_current_context(), [&] {
    const CopyScope scope;  // Both see the memory at the same place.
    const CUresult made = call_driver<entry>(out, graph, args...);
    if (made == CUDA_SUCCESS && moves) program().graph_places.instantiated(*out, nodes);
    return made;
  });
  if (result == CUDA_SUCCESS) program().graph_uses.instantiated(*out, graph);
  return result;
} catch (const std::exception&) {
  return CUDA_ERROR_OUT_OF_MEMORY;
}

template <EntryPoint entry>
CUresult launch_graph(CUgraphExec exec, CUstream stream) noexcept {
  const CUresult result = GenericHook<entry>::call(exec, stream);
  if (result == CUDA_SUCCESS) program().graph_uses.launched(exec);
  return result;
}

/// The driver compares where the operands lie with where they lay at the instantiation. So if an
/// update fails, they are moved there, and it is tried again. `operands` finds them and the places.
template <EntryPoint entry, typename Operands, typename... Args>
CUresult update_graph(Operands operands, Args... args) noexcept try {
  const auto update = [&] {
    const auto need = RoomNeed::in_current_context();
    return call_driver_with_room<entry>(need, args...);
  };
  const CUresult result = update();
  const bool refused =
      result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  if (!refused || VmartLibrary::loaded() == nullptr) return result;
  const HeldOperands held(program().memory, program().limits, operands());
  return held.any() ? update() : result;
} catch (const std::exception&) {
  return CUDA_ERROR_OUT_OF_MEMORY;
}

/// Whether the update may have failed because memory has moved.
bool is_about_memory(CUgraphExecUpdateResult why) noexcept {
  return why == CU_GRAPH_EXEC_UPDATE_ERROR || why == CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED ||
         why == CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

template <EntryPoint entry, typename... Args>
CUresult update(CUgraphExecUpdateResult* why, CUgraphExec exec, CUgraph graph,
                Args... args) noexcept {
  const auto operands = [&] {
    return why != nullptr && is_about_memory(*why)
               ? program().graph_places.places_of(exec, nullptr, graph)
               : std::vector<PlacedOperand>();
  };
  const CUresult result = update_graph<entry>(operands, exec, graph, args...);
  if (result == CUDA_SUCCESS) program().graph_uses.updated(exec, graph);
  return result;
}

template <EntryPoint entry, typename Parameters>
CUresult set_parameters(CUgraphExec exec, CUgraphNode node, const Parameters* parameters) noexcept {
  const CUresult result = call_driver<entry>(exec, node, parameters);
  if (result == CUDA_SUCCESS) program().graph_uses.changed(exec, node, parameters);
  return result;
}

}  // namespace

CUresult hook_cuGraphInstantiate(CUgraphExec* out, CUgraph graph, CUgraphNode* failed, char* log,
                                 std::size_t log_bytes) {
  return instantiate<EntryPoint::cuGraphInstantiate>(out, graph, failed, log, log_bytes);
}

CUresult hook_cuGraphInstantiate_v2(CUgraphExec* out, CUgraph graph, CUgraphNode* failed, char* log,
                                    std::size_t log_bytes) {
  return instantiate<EntryPoint::cuGraphInstantiate_v2>(out, graph, failed, log, log_bytes);
}

CUresult hook_cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph,
                                          unsigned long long flags) {
  return instantiate<EntryPoint::cuGraphInstantiateWithFlags>(out, graph, flags);
}

CUresult hook_cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS* how) {
  return instantiate<EntryPoint::cuGraphInstantiateWithParams>(out, graph, how);
}

CUresult hook_cuGraphInstantiateWithParams_ptsz(CUgraphExec* out, CUgraph graph,
                                                CUDA_GRAPH_INSTANTIATE_PARAMS* how) {
  return instantiate<EntryPoint::cuGraphInstantiateWithParams_ptsz>(out, graph, how);
}

CUresult hook_cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return launch_graph<EntryPoint::cuGraphLaunch>(exec, stream);
}

CUresult hook_cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) {
  return launch_graph<EntryPoint::cuGraphLaunch_ptsz>(exec, stream);
}

CUresult hook_cuGraphExecDestroy(CUgraphExec exec) {
  // Before, since another thread may get the same handle from then on.
  program().graph_uses.forget(exec);
  program().graph_places.forget(exec);
  return call_driver<EntryPoint::cuGraphExecDestroy>(exec);
}

// --- Changes

CUresult hook_cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* failed,
                                CUgraphExecUpdateResult* why) {
  return update<EntryPoint::cuGraphExecUpdate>(why, exec, graph, failed, why);
}

CUresult hook_cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph,
                                   CUgraphExecUpdateResultInfo* info) {
  return update<EntryPoint::cuGraphExecUpdate_v2>(info != nullptr ? &info->result : nullptr, exec,
                                                  graph, info);
}

CUresult hook_cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                             const CUDA_KERNEL_NODE_PARAMS_v1* kernel) {
  return set_parameters<EntryPoint::cuGraphExecKernelNodeSetParams>(exec, node, kernel);
}

CUresult hook_cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                const CUDA_KERNEL_NODE_PARAMS_v2* kernel) {
  return set_parameters<EntryPoint::cuGraphExecKernelNodeSetParams_v2>(exec, node, kernel);
}

CUresult hook_cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                             const CUDA_MEMCPY3D* copy, CUcontext context) {
  constexpr auto entry = EntryPoint::cuGraphExecMemcpyNodeSetParams;
  const auto operands = [&] { return program().graph_places.places_of(exec, node, copy); };
  const CUresult result = update_graph<entry>(operands, exec, node, copy, context);
  if (result == CUDA_SUCCESS) program().graph_uses.changed(exec, node, copy);
  return result;
}

CUresult hook_cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                             const CUDA_MEMSET_NODE_PARAMS* fill,
                                             CUcontext context) {
  constexpr auto entry = EntryPoint::cuGraphExecMemsetNodeSetParams;
  const auto operands = [&] { return program().graph_places.places_of(exec, node, fill); };
  const CUresult result = update_graph<entry>(operands, exec, node, fill, context);
  if (result == CUDA_SUCCESS) program().graph_uses.changed(exec, node, fill);
  return result;
}

CUresult hook_cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                       CUgraphNodeParams* what) {
  const auto operands = [&] { return program().graph_places.places_of(exec, node, what); };
  const CUresult result =
      update_graph<EntryPoint::cuGraphExecNodeSetParams>(operands, exec, node, what);
  if (result != CUDA_SUCCESS || what == nullptr) return result;
  GraphUses& uses = program().graph_uses;
  switch (what->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: uses.changed(exec, node, &what->kernel); break;
    case CU_GRAPH_NODE_TYPE_MEMCPY: uses.changed(exec, node, &what->memcpy.copyParams); break;
    case CU_GRAPH_NODE_TYPE_MEMSET: uses.changed(exec, node, &what->memset); break;
    case CU_GRAPH_NODE_TYPE_GRAPH: uses.child_changed(exec, node, what->graph.graph); break;
    default: break;
  }
  return result;
}

CUresult hook_cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                 CUgraph child) {
  constexpr auto entry = EntryPoint::cuGraphExecChildGraphNodeSetParams;
  const auto operands = [&] { return program().graph_places.places_of(exec, node, child); };
  const CUresult result = update_graph<entry>(operands, exec, node, child);
  if (result == CUDA_SUCCESS) program().graph_uses.child_changed(exec, node, child);
  return result;
}

CUresult hook_cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
  const CUresult result = call_driver<EntryPoint::cuGraphNodeSetEnabled>(exec, node, enabled);
  if (result == CUDA_SUCCESS) program().graph_uses.enabled(exec, node, enabled != 0);
  return result;
}

}  // namespace vma::interpose
