// Graphs that the program builds, and launches of all graphs.
#include "simcuda/graphs.hpp"
#include "simcuda/library.hpp"
#include "simcuda/modules.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
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
  for (CUgraphNode node : nodes) {
    const auto ended = vma::graphs().nodes.take(node);
    if (ended->child != nullptr) vma::graphs().graphs.take(ended->child);
  }
  if (is_none(captured)) return;
  try {
    sim().destroy_graph(captured);
  } catch (...) {  // It went with the machine.
  }
}

ExecGraph::~ExecGraph() {
  if (is_none(handle)) return;
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

/// What a node adds to its graph.
struct Added {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  ContextHandle context{};
  std::vector<BuiltStep> steps;
  NodeContents contents;
};

Added transfer_node(CUgraphNodeType type, const Transfer& what) {
  NodeContents contents;
  std::visit([&](const auto& parameters) { contents = parameters; }, what);
  return {type, {}, {what}, std::move(contents)};
}

/// For both versions of the parameters.
template <typename Parameters>
Added kernel_node(const Parameters* parameters) {
  const Parameters& what = *required(parameters);
  CUfunction handle = what.func;
  if constexpr (requires { what.kern; }) {
    if (handle == nullptr) handle = reinterpret_cast<CUfunction>(what.kern);
  }
  const auto function = function_of(handle);
  const LaunchShape shape{{what.gridDimX, what.gridDimY, what.gridDimZ},
                          {what.blockDimX, what.blockDimY, what.blockDimZ}};
  ChainStep step = step_of(*function, shape, what.kernelParams, what.extra);
  NodeContents contents = contents_of(*function, shape, step.arguments);
  return {CU_GRAPH_NODE_TYPE_KERNEL, function->context, {std::move(step)}, std::move(contents)};
}

Added batch_node(const CUDA_BATCH_MEM_OP_NODE_PARAMS* parameters) {
  ChainStep step;
  step.words = word_operations(required(parameters)->paramArray, parameters->count);
  return {CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
          handle_of<ContextHandle>(parameters->ctx),
          {std::move(step)},
          {}};
}

/// A copy of the graph, which the program must have built.
Added child_node(CUgraph graph) {
  const auto child = graphs().graphs.at(graph, CUDA_ERROR_INVALID_VALUE);
  if (child->capturing || !is_none(child->captured)) refuse(CUDA_ERROR_NOT_SUPPORTED);
  const auto copy = std::make_shared<Graph>();
  copy->context = child->context;
  copy->steps = child->steps;
  for (CUgraphNode each : child->nodes) {
    Node node = *graphs().nodes.at(each);
    if (node.child != nullptr) refuse(CUDA_ERROR_NOT_SUPPORTED);
    node.graph = copy.get();
    add_node_to(*copy, node);
  }
  return {CU_GRAPH_NODE_TYPE_GRAPH, child->context, child->steps, copy};
}

/// Nodes run in the order in which they are added, which obeys any dependencies on earlier ones.
void add_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* before, std::size_t count,
              Added what) {
  required(node);
  const auto owner = graphs().graphs.at(graph, CUDA_ERROR_INVALID_VALUE);
  if (owner->capturing || !is_none(owner->captured)) refuse(CUDA_ERROR_NOT_SUPPORTED);
  for (std::size_t i = 0; i < count; ++i) {
    if (graphs().nodes.at(required(before)[i], CUDA_ERROR_INVALID_VALUE)->graph != owner.get()) {
      refuse(CUDA_ERROR_INVALID_VALUE);
    }
  }
  if (is_none(owner->context)) owner->context = what.context;
  Node made{owner.get(), owner->steps.size(), what.type, std::move(what.contents)};
  if (const auto* child = std::get_if<std::shared_ptr<Graph>>(&made.contents)) {
    made.child = native_of<CUgraph>(graphs().graphs.add(*child));
  }
  std::ranges::move(what.steps, std::back_inserter(owner->steps));
  *node = add_node_to(*owner, std::move(made));
}

/// For a node of any type that the simulator has.
Added node_of(const CUgraphNodeParams* parameters) {
  const CUgraphNodeParams& what = *required(parameters);
  switch (what.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return kernel_node(&what.kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return transfer_node(what.type, checked(&what.memcpy.copyParams));
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const CUDA_MEMSET_NODE_PARAMS_v2& fill = what.memset;
      const CUDA_MEMSET_NODE_PARAMS_v1 first{fill.dst,         fill.pitch, fill.value,
                                             fill.elementSize, fill.width, fill.height};
      return transfer_node(what.type, checked(&first));
    }
    case CU_GRAPH_NODE_TYPE_GRAPH: return child_node(what.graph.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY: return {};
    default: refuse(CUDA_ERROR_NOT_SUPPORTED);
  }
}

/// Changes a copy or a fill of a graph that is not instantiated yet.
void set_node(CUgraphNode node, Added what) {
  const auto known = graphs().nodes.at(node, CUDA_ERROR_INVALID_VALUE);
  if (known->type != what.type) refuse(CUDA_ERROR_INVALID_VALUE);
  const bool transfers = std::holds_alternative<CUDA_MEMCPY3D>(what.contents) ||
                         std::holds_alternative<CUDA_MEMSET_NODE_PARAMS_v1>(what.contents);
  if (!transfers || !is_none(known->graph->captured)) refuse(CUDA_ERROR_NOT_SUPPORTED);
  known->graph->steps[known->step] = std::move(what.steps.front());
  known->contents = std::move(what.contents);
}

void instantiate(CUgraphExec* exec, CUgraph graph) {
  required(exec);
  const auto source = graphs().graphs.at(graph, CUDA_ERROR_INVALID_VALUE);
  if (source->capturing) refuse(CUDA_ERROR_INVALID_VALUE);
  const auto made = std::make_shared<ExecGraph>();
  made->of = source.get();
  made->objects = source->objects;
  if (is_none(source->captured)) {
    made->built = std::make_unique<BuiltSteps>(*source);
  } else {
    made->handle = sim().instantiate(source->captured);
  }
  *exec = native_of<CUgraphExec>(graphs().exec_graphs.add(made));
}

void update(CUgraphExec exec, CUgraphNode node, Added what) {
  const auto updated = graphs().exec_graphs.at(exec, CUDA_ERROR_INVALID_VALUE);
  const auto known = graphs().nodes.at(node, CUDA_ERROR_INVALID_VALUE);
  if (known->graph != updated->of || known->type != what.type) refuse(CUDA_ERROR_INVALID_VALUE);
  updated->built->update(known->step, std::move(what.steps.front()));
}

/// Takes the parameters of a graph of as many steps, both of which the program has built. Others
/// are refused, and programs then instantiate the graph anew.
CUgraphExecUpdateResult update_all(CUgraphExec exec, CUgraph graph) {
  const auto updated = graphs().exec_graphs.at(exec, CUDA_ERROR_INVALID_VALUE);
  const auto source = graphs().graphs.at(graph, CUDA_ERROR_INVALID_VALUE);
  if (updated->built == nullptr || !is_none(source->captured)) {
    return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
  }
  return updated->built->update_all(*source);
}

}  // namespace

NodeContents contents_of(const Function& function, LaunchShape shape,
                         const KernelArguments& arguments) {
  NodeKernel kernel;
  kernel.function = native_of<CUfunction>(function.handle);
  kernel.context = native_of<CUcontext>(function.context);
  kernel.shape = shape;
  kernel.words.assign(arguments.words().begin(), arguments.words().end());
  return kernel;
}

CUgraphNode add_node_to(Graph& graph, Node node) {
  const auto made = std::make_shared<Node>(std::move(node));
  if (auto* const kernel = std::get_if<NodeKernel>(&made->contents)) {
    kernel->pointers.clear();
    for (std::uint64_t& word : kernel->words) kernel->pointers.push_back(&word);
  }
  graph.nodes.push_back(native_of<CUgraphNode>(graphs().nodes.add(made)));
  return graph.nodes.back();
}

SIMCUDA_CALL(cuGraphCreate, (CUgraph * graph, unsigned int flags), (graph, flags)) {
  if (flags != 0) refuse(CUDA_ERROR_INVALID_VALUE);
  sim();
  *required(graph) = native_of<CUgraph>(graphs().graphs.add(std::make_shared<Graph>()));
}
SIMCUDA_CALL(cuGraphDestroy, (CUgraph graph), (graph)) {
  if (graphs().graphs.at(graph, CUDA_ERROR_INVALID_VALUE)->capturing) {
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
  graphs().graphs.take(graph, CUDA_ERROR_INVALID_VALUE);
}

SIMCUDA_CALL(cuGraphAddKernelNode,
             (CUgraphNode * node, CUgraph graph, const CUgraphNode* before, std::size_t count,
              const CUDA_KERNEL_NODE_PARAMS_v1* parameters),
             (node, graph, before, count, parameters)) {
  add_node(node, graph, before, count, kernel_node(parameters));
}
SIMCUDA_CALL(cuGraphAddKernelNode_v2,
             (CUgraphNode * node, CUgraph graph, const CUgraphNode* before, std::size_t count,
              const CUDA_KERNEL_NODE_PARAMS* parameters),
             (node, graph, before, count, parameters)) {
  add_node(node, graph, before, count, kernel_node(parameters));
}
SIMCUDA_CALL(cuGraphAddBatchMemOpNode,
             (CUgraphNode * node, CUgraph graph, const CUgraphNode* before, std::size_t count,
              const CUDA_BATCH_MEM_OP_NODE_PARAMS* parameters),
             (node, graph, before, count, parameters)) {
  add_node(node, graph, before, count, batch_node(parameters));
}
SIMCUDA_CALL(cuGraphAddEmptyNode,
             (CUgraphNode * node, CUgraph graph, const CUgraphNode* before, std::size_t count),
             (node, graph, before, count)) {
  add_node(node, graph, before, count, {});
}
SIMCUDA_CALL(cuGraphAddChildGraphNode,
             (CUgraphNode * node, CUgraph graph, const CUgraphNode* before, std::size_t count,
              CUgraph child),
             (node, graph, before, count, child)) {
  add_node(node, graph, before, count, child_node(child));
}

SIMCUDA_CALL(cuGraphAddMemcpyNode,
             (CUgraphNode * node, CUgraph graph, const CUgraphNode* before, std::size_t count,
              const CUDA_MEMCPY3D* parameters, CUcontext),
             (node, graph, before, count, parameters, nullptr)) {
  add_node(node, graph, before, count,
           transfer_node(CU_GRAPH_NODE_TYPE_MEMCPY, checked(parameters)));
}
SIMCUDA_CALL(cuGraphAddMemsetNode,
             (CUgraphNode * node, CUgraph graph, const CUgraphNode* before, std::size_t count,
              const CUDA_MEMSET_NODE_PARAMS_v1* parameters, CUcontext),
             (node, graph, before, count, parameters, nullptr)) {
  add_node(node, graph, before, count,
           transfer_node(CU_GRAPH_NODE_TYPE_MEMSET, checked(parameters)));
}

SIMCUDA_CALL(cuGraphAddNode_v3,
             (CUgraphNode * node, CUgraph graph, const CUgraphNode* before, const CUgraphEdgeData*,
              std::size_t count, CUgraphNodeParams* parameters),
             (node, graph, before, nullptr, count, parameters)) {
  add_node(node, graph, before, count, node_of(parameters));
}
SIMCUDA_CALL(cuGraphNodeSetParams_v2, (CUgraphNode node, CUgraphNodeParams* parameters),
             (node, parameters)) {
  set_node(node, node_of(parameters));
}

SIMCUDA_CALL(cuGraphInstantiate,
             (CUgraphExec * exec, CUgraph graph, CUgraphNode*, char*, std::size_t),
             (exec, graph, nullptr, nullptr, 0)) {
  instantiate(exec, graph);
}
SIMCUDA_CALL(cuGraphInstantiate_v2,
             (CUgraphExec * exec, CUgraph graph, CUgraphNode*, char*, std::size_t),
             (exec, graph, nullptr, nullptr, 0)) {
  instantiate(exec, graph);
}
SIMCUDA_CALL(cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long),
             (exec, graph, 0)) {
  instantiate(exec, graph);
}
SIMCUDA_CALL(cuGraphExecDestroy, (CUgraphExec exec), (exec)) {
  graphs().exec_graphs.take(exec, CUDA_ERROR_INVALID_VALUE);
}
SIMCUDA_STREAM_CALL(cuGraphUpload, _ptsz, (CUgraphExec exec, CUstream stream), (exec, stream)) {
  graphs().exec_graphs.at(exec, CUDA_ERROR_INVALID_VALUE);
  stream_of(stream);
}
SIMCUDA_STREAM_CALL(cuGraphLaunch, _ptsz, (CUgraphExec exec, CUstream stream), (exec, stream)) {
  const auto launched = graphs().exec_graphs.at(exec, CUDA_ERROR_INVALID_VALUE);
  const BoundStream bound = stream_of(stream);
  if (!is_none(launched->handle)) sim().launch_graph(bound, launched->handle);
  if (launched->built != nullptr) launched->built->launch(stream);
}

SIMCUDA_CALL(cuGraphExecKernelNodeSetParams,
             (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* parameters),
             (exec, node, parameters)) {
  update(exec, node, kernel_node(parameters));
}
SIMCUDA_CALL(cuGraphExecKernelNodeSetParams_v2,
             (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* parameters),
             (exec, node, parameters)) {
  update(exec, node, kernel_node(parameters));
}
SIMCUDA_CALL(cuGraphExecBatchMemOpNodeSetParams,
             (CUgraphExec exec, CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS* parameters),
             (exec, node, parameters)) {
  update(exec, node, batch_node(parameters));
}
SIMCUDA_CALL(cuGraphExecMemcpyNodeSetParams,
             (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* parameters, CUcontext),
             (exec, node, parameters, nullptr)) {
  update(exec, node, transfer_node(CU_GRAPH_NODE_TYPE_MEMCPY, checked(parameters)));
}
SIMCUDA_CALL(cuGraphExecMemsetNodeSetParams,
             (CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS_v1* parameters,
              CUcontext),
             (exec, node, parameters, nullptr)) {
  update(exec, node, transfer_node(CU_GRAPH_NODE_TYPE_MEMSET, checked(parameters)));
}
SIMCUDA_CALL(cuGraphExecUpdate_v2,
             (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info),
             (exec, graph, info)) {
  *required(info) = {};
  info->result = update_all(exec, graph);
  if (info->result != CU_GRAPH_EXEC_UPDATE_SUCCESS) refuse(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
}

// --- User objects
SIMCUDA_CALL(cuUserObjectCreate,
             (CUuserObject * object, void* data, CUhostFn destroy, unsigned int references,
              unsigned int flags),
             (object, data, destroy, references, flags)) {
  if (references == 0 || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) {
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
  const auto made = std::make_shared<UserObject>(data, required(destroy), references);
  *required(object) = native_of<CUuserObject>(graphs().user_objects.add(made));
}
SIMCUDA_CALL(cuUserObjectRetain, (CUuserObject object, unsigned int count), (object, count)) {
  graphs().user_objects.at(object, CUDA_ERROR_INVALID_VALUE)->retain(count);
}
SIMCUDA_CALL(cuUserObjectRelease, (CUuserObject object, unsigned int count), (object, count)) {
  graphs().user_objects.at(object, CUDA_ERROR_INVALID_VALUE)->release(count);
}
SIMCUDA_CALL(cuGraphRetainUserObject,
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
