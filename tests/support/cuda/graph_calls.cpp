// Graphs that the program builds, and launches of all graphs.
#include "support/cuda/graphs.hpp"
#include "support/cuda/library.hpp"
#include "support/cuda/modules.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace vma {

void UserObject::release(unsigned int count) {
  unsigned int left = references_.load();
  do {
    if (left < count) refuse(CUDA_ERROR_INVALID_VALUE);
  } while (!references_.compare_exchange_weak(left, left - count));
  if (left == count && destroy_ != nullptr) destroy_(data_);
}

HeldObjects::~HeldObjects() {
  const MutexLock lock(mutex_);
  for (const Held& held : held_) held.object->release(held.count);
}

void HeldObjects::add(std::shared_ptr<UserObject> object, unsigned int count) {
  const MutexLock lock(mutex_);
  held_.push_back({std::move(object), count});
}

Graph::~Graph() {
  for (CUgraphNode node : nodes) vma::graphs().nodes.take(node);
  if (is_none(captured)) return;
  try {
    sim().destroy_graph(captured);
  } catch (...) {  // It went with the machine.
  }
}

ExecGraph::~ExecGraph() {
  try {
    sim().destroy_exec_graph(handle);
  } catch (...) {  // It went with its context.
  }
}

namespace {

ChainStep step_of(const Function& function, LaunchShape shape, void** pointers, void** extra) {
  if (function.stops) refuse(CUDA_ERROR_NOT_SUPPORTED);
  ChainStep step;
  step.kernel = function.handle;
  step.shape = shape;
  step.arguments = arguments_of(function, pointers, extra);
  return step;
}

/// Of either version of the parameters.
template <typename Parameters>
std::pair<ChainStep, ContextHandle> kernel_step(const Parameters* parameters) {
  const Parameters& what = *required(parameters);
  CUfunction handle = what.func;
  if constexpr (requires { what.kern; }) {
    if (handle == nullptr) handle = reinterpret_cast<CUfunction>(what.kern);
  }
  const auto function = function_of(handle);
  const LaunchShape shape{{what.gridDimX, what.gridDimY, what.gridDimZ},
                          {what.blockDimX, what.blockDimY, what.blockDimZ}};
  return {step_of(*function, shape, what.kernelParams, what.extra), function->context};
}

std::pair<ChainStep, ContextHandle> batch_step(const CUDA_BATCH_MEM_OP_NODE_PARAMS* parameters) {
  ChainStep step;
  step.words = word_operations(required(parameters)->paramArray, parameters->count);
  return {std::move(step), handle_of<ContextHandle>(parameters->ctx)};
}

/// Nodes run in the order in which they are added, which obeys any dependencies on earlier ones.
void add_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, std::size_t count,
              CUgraphNodeType type, std::pair<ChainStep, ContextHandle> what) {
  required(node);
  const auto owner = graphs().graphs.at(graph, CUDA_ERROR_INVALID_VALUE);
  if (owner->capturing || !is_none(owner->captured) || !owner->fills.empty()) {
    refuse(CUDA_ERROR_NOT_SUPPORTED);
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (graphs().nodes.at(required(before)[i], CUDA_ERROR_INVALID_VALUE)->graph != owner.get()) {
      refuse(CUDA_ERROR_INVALID_VALUE);
    }
  }
  if (is_none(owner->context)) owner->context = what.second;
  const auto made = std::make_shared<Node>(Node{owner.get(), owner->steps.size(), type});
  if (type != CU_GRAPH_NODE_TYPE_EMPTY) owner->steps.push_back(std::move(what.first));
  owner->nodes.push_back(native_of<CUgraphNode>(graphs().nodes.add(made)));
  *node = owner->nodes.back();
}

void instantiate(CUgraphExec* exec, CUgraph graph) {
  required(exec);
  const auto source = graphs().graphs.at(graph, CUDA_ERROR_INVALID_VALUE);
  if (source->capturing) refuse(CUDA_ERROR_INVALID_VALUE);
  const auto made = std::make_shared<ExecGraph>();
  made->of = source.get();
  made->objects = source->objects;
  made->fills = fills_of(*source);
  if (!is_none(source->captured)) {
    made->handle = sim().instantiate(source->captured);
  } else if (!source->steps.empty()) {
    made->steps = source->steps;
    made->handle = sim().make_chain(source->context, source->steps);
  }
  *exec = native_of<CUgraphExec>(graphs().exec_graphs.add(made));
}

void update(CUgraphExec exec, CUgraphNode node, CUgraphNodeType type,
            std::pair<ChainStep, ContextHandle> what) {
  const auto updated = graphs().exec_graphs.at(exec, CUDA_ERROR_INVALID_VALUE);
  const auto known = graphs().nodes.at(node, CUDA_ERROR_INVALID_VALUE);
  if (known->graph != updated->of || known->type != type) refuse(CUDA_ERROR_INVALID_VALUE);
  std::vector<ChainStep> steps = updated->steps;
  steps.at(known->step) = std::move(what.first);
  sim().update_chain(updated->handle, steps);
  updated->steps = std::move(steps);
}

}  // namespace

SIM_CUDA_CALL(cuGraphCreate, (CUgraph * graph, unsigned int flags), (graph, flags)) {
  if (flags != 0) refuse(CUDA_ERROR_INVALID_VALUE);
  sim();
  *required(graph) = native_of<CUgraph>(graphs().graphs.add(std::make_shared<Graph>()));
}
SIM_CUDA_CALL(cuGraphDestroy, (CUgraph graph), (graph)) {
  if (graphs().graphs.at(graph, CUDA_ERROR_INVALID_VALUE)->capturing) {
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
  graphs().graphs.take(graph, CUDA_ERROR_INVALID_VALUE);
}

SIM_CUDA_CALL(cuGraphAddKernelNode,
              (CUgraphNode * node, CUgraph graph, const CUgraphNode* before, std::size_t count,
               const CUDA_KERNEL_NODE_PARAMS_v1* parameters),
              (node, graph, before, count, parameters)) {
  add_node(node, graph, before, count, CU_GRAPH_NODE_TYPE_KERNEL, kernel_step(parameters));
}
SIM_CUDA_CALL(cuGraphAddKernelNode_v2,
              (CUgraphNode * node, CUgraph graph, const CUgraphNode* before, std::size_t count,
               const CUDA_KERNEL_NODE_PARAMS* parameters),
              (node, graph, before, count, parameters)) {
  add_node(node, graph, before, count, CU_GRAPH_NODE_TYPE_KERNEL, kernel_step(parameters));
}
SIM_CUDA_CALL(cuGraphAddBatchMemOpNode,
              (CUgraphNode * node, CUgraph graph, const CUgraphNode* before, std::size_t count,
               const CUDA_BATCH_MEM_OP_NODE_PARAMS* parameters),
              (node, graph, before, count, parameters)) {
  add_node(node, graph, before, count, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, batch_step(parameters));
}
SIM_CUDA_CALL(cuGraphAddEmptyNode,
              (CUgraphNode * node, CUgraph graph, const CUgraphNode* before, std::size_t count),
              (node, graph, before, count)) {
  add_node(node, graph, before, count, CU_GRAPH_NODE_TYPE_EMPTY, {});
}
SIM_CUDA_CALL(cuGraphNodeGetType, (CUgraphNode node, CUgraphNodeType* type), (node, type)) {
  *required(type) = graphs().nodes.at(node, CUDA_ERROR_INVALID_VALUE)->type;
}
// Of a captured graph, whose nodes the simulator keeps to itself, there are none to see.
SIM_CUDA_CALL(cuGraphGetNodes, (CUgraph graph, CUgraphNode* nodes, std::size_t* count),
              (graph, nodes, count)) {
  const auto owner = graphs().graphs.at(graph, CUDA_ERROR_INVALID_VALUE);
  if (!is_none(owner->captured)) refuse(CUDA_ERROR_NOT_SUPPORTED);
  if (nodes == nullptr) {
    *required(count) = owner->nodes.size();
    return;
  }
  std::copy_n(owner->nodes.begin(), std::min(*required(count), owner->nodes.size()), nodes);
}

SIM_CUDA_CALL(cuGraphInstantiate,
              (CUgraphExec * exec, CUgraph graph, CUgraphNode*, char*, std::size_t),
              (exec, graph, nullptr, nullptr, 0)) {
  instantiate(exec, graph);
}
SIM_CUDA_CALL(cuGraphInstantiate_v2,
              (CUgraphExec * exec, CUgraph graph, CUgraphNode*, char*, std::size_t),
              (exec, graph, nullptr, nullptr, 0)) {
  instantiate(exec, graph);
}
SIM_CUDA_CALL(cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long),
              (exec, graph, 0)) {
  instantiate(exec, graph);
}
SIM_CUDA_CALL(cuGraphExecDestroy, (CUgraphExec exec), (exec)) {
  graphs().exec_graphs.take(exec, CUDA_ERROR_INVALID_VALUE);
}
SIM_CUDA_STREAM_CALL(cuGraphUpload, _ptsz, (CUgraphExec exec, CUstream stream), (exec, stream)) {
  graphs().exec_graphs.at(exec, CUDA_ERROR_INVALID_VALUE);
  stream_of(stream);
}
SIM_CUDA_STREAM_CALL(cuGraphLaunch, _ptsz, (CUgraphExec exec, CUstream stream), (exec, stream)) {
  const auto launched = graphs().exec_graphs.at(exec, CUDA_ERROR_INVALID_VALUE);
  const BoundStream bound = stream_of(stream);
  if (!is_none(launched->handle)) sim().launch_graph(bound, launched->handle);
  launch(launched->fills, bound);
}

SIM_CUDA_CALL(cuGraphExecKernelNodeSetParams,
              (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* parameters),
              (exec, node, parameters)) {
  update(exec, node, CU_GRAPH_NODE_TYPE_KERNEL, kernel_step(parameters));
}
SIM_CUDA_CALL(cuGraphExecKernelNodeSetParams_v2,
              (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* parameters),
              (exec, node, parameters)) {
  update(exec, node, CU_GRAPH_NODE_TYPE_KERNEL, kernel_step(parameters));
}
SIM_CUDA_CALL(cuGraphExecBatchMemOpNodeSetParams,
              (CUgraphExec exec, CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS* parameters),
              (exec, node, parameters)) {
  update(exec, node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, batch_step(parameters));
}
// --- User objects
SIM_CUDA_CALL(cuUserObjectCreate,
              (CUuserObject * object, void* data, CUhostFn destroy, unsigned int references,
               unsigned int flags),
              (object, data, destroy, references, flags)) {
  if (references == 0 || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) {
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
  const auto made = std::make_shared<UserObject>(data, required(destroy), references);
  *required(object) = native_of<CUuserObject>(graphs().user_objects.add(made));
}
SIM_CUDA_CALL(cuUserObjectRetain, (CUuserObject object, unsigned int count), (object, count)) {
  graphs().user_objects.at(object, CUDA_ERROR_INVALID_VALUE)->retain(count);
}
SIM_CUDA_CALL(cuUserObjectRelease, (CUuserObject object, unsigned int count), (object, count)) {
  graphs().user_objects.at(object, CUDA_ERROR_INVALID_VALUE)->release(count);
}
SIM_CUDA_CALL(cuGraphRetainUserObject,
              (CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags),
              (graph, object, count, flags)) {
  const auto owner = graphs().graphs.at(graph, CUDA_ERROR_INVALID_VALUE);
  const auto held = graphs().user_objects.at(object, CUDA_ERROR_INVALID_VALUE);
  if (count == 0) refuse(CUDA_ERROR_INVALID_VALUE);
  if (owner->capturing) {
    // The simulator knows better when no launch of the graph can run any more.
    sim().at_graph_end(owner->origin, [held, count] { held->release(count); });
  } else {
    owner->objects->add(held, count);
  }
  if (flags != CU_GRAPH_USER_OBJECT_MOVE) held->retain(count);
}

}  // namespace vma
