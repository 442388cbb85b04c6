// Graphs that are built node by node, and changes of their nodes.
#include "world.hpp"

#include <algorithm>
#include <optional>
#include <set>

namespace fuzz {
namespace {

constexpr std::size_t row_pitch = 1024;

/// What a node does, as parameters for a new node or an old one.
struct NodeWork {
  std::string text;
  std::vector<std::size_t> buffers;
  std::function<CUresult(CUgraph, const CUgraphNode* before, std::size_t count, CUgraphNode*)> add;
  std::function<CUresult(CUgraphExec, CUgraphNode)> set;
};

NodeShape any_shape(World& world, std::size_t context) {
  const int here = world.contexts[context].device;
  switch (world.random.below(6)) {
    case 0:
    case 1: return {CU_GRAPH_NODE_TYPE_KERNEL, here, here};
    case 2:
    case 3: return {CU_GRAPH_NODE_TYPE_MEMSET, here, here};
    case 4: return {CU_GRAPH_NODE_TYPE_MEMCPY, here, NodeShape::host};
    default: {
      const int there = 1 - here;
      return {CU_GRAPH_NODE_TYPE_MEMCPY, world.random.one_in(4) ? there : here,
              world.random.one_in(4) ? there : here};
    }
  }
}

/// Chooses the memory of nodes.
class Operands {
 public:
  /// Without limits, except that copies reach it.
  Operands(World& world, std::size_t context) : world_(world), context_(context) {}
  /// For an update, which the driver takes only if the memory lies where that of the node lay when
  /// the graph was instantiated. So it is memory that can move there, whatever the options, is at
  /// no other place for another node, and there is room for all of it under a limit.
  static Operands of_update(World& world, std::size_t context) {
    Operands operands(world, context);
    operands.updates_ = true;
    return operands;
  }

  /// Empty if there is none.
  Part of_kernel(std::size_t unit) {
    return any(world_.contexts[context_].device, unit, SIZE_MAX, false);
  }
  Part of_copy(int device, std::size_t unit, std::size_t bytes_max) {
    const Part part = any(device, unit, bytes_max, updates_);
    if (updates_ && part.bytes != 0) taken_.insert(part.buffer);
    return part;
  }
  World& world() const { return world_; }
  const Context& context() const { return world_.contexts[context_]; }

 private:
  static constexpr std::size_t movable_bytes = std::size_t{4} << 20;  // The largest `--min`.
  static constexpr std::size_t taken_max = 2;

  Part any(int device, std::size_t unit, std::size_t bytes_max, bool movable) {
    std::vector<std::size_t> found;
    if (movable && taken_.size() >= taken_max) return {};
    for (std::size_t i = 0; i < world_.buffers.size(); ++i) {
      const Buffer& buffer = world_.buffers[i];
      const bool reached = device == context().device || buffer.everywhere;
      if (!buffer.alive || buffer.begin == 0 || buffer.device != device || !reached) continue;
      const bool moves = buffer.kind == Kind::plain && buffer.bytes >= movable_bytes;
      if (movable && (!moves || taken_.contains(i))) continue;
      found.push_back(i);
    }
    return found.empty() ? Part{} : part_of(world_, world_.random.of(found), unit, bytes_max);
  }

  World& world_;
  const std::size_t context_;
  bool updates_ = false;
  std::set<std::size_t> taken_;
};

/// Adds to all words, or writes them.
std::optional<NodeWork> kernel_work(Operands& operands) {
  constexpr std::size_t word = sizeof(std::uint64_t);
  World& world = operands.world();
  const Context& owner = operands.context();
  const Part part = operands.of_kernel(word);
  if (part.bytes == 0) return std::nullopt;
  const bool adds = world.random.one_in(2);
  const auto with = [=, function = adds ? owner.add : owner.fill,
                     value = world.random.next()](auto call) {
    CUdeviceptr words = part.at;
    std::uint64_t count = part.bytes / word;
    std::uint64_t number = value;
    void* all[] = {&words, &count, &number};
    CUDA_KERNEL_NODE_PARAMS parameters{};
    parameters.func = function;
    parameters.gridDimX = parameters.gridDimY = parameters.gridDimZ = 1;
    parameters.blockDimX = 32;
    parameters.blockDimY = parameters.blockDimZ = 1;
    parameters.kernelParams = all;
    return call(&parameters);
  };
  NodeWork work;
  work.text = std::string("kernel ") + (adds ? "add " : "fill ") + part.name;
  work.buffers = {part.buffer};
  work.add = [with](CUgraph graph, const CUgraphNode* before, std::size_t count, CUgraphNode* out) {
    return with([=](const auto* parameters) {
      return driver.f_cuGraphAddKernelNode(out, graph, before, count, parameters);
    });
  };
  work.set = [with](CUgraphExec exec, CUgraphNode node) {
    return with([=](const auto* parameters) {
      return driver.f_cuGraphExecKernelNodeSetParams(exec, node, parameters);
    });
  };
  return work;
}

/// One row, or several, which the driver takes in no update.
/// By the functions of the driver that add such a node to a graph, and set it in an executable one.
template <typename Parameters, typename Add, typename Set>
void make_calls(NodeWork& work, const Parameters& parameters, CUcontext owner, Add add, Set set) {
  work.add = [=](CUgraph graph, const CUgraphNode* before, std::size_t count, CUgraphNode* out) {
    return add(out, graph, before, count, &parameters, owner);
  };
  work.set = [=](CUgraphExec exec, CUgraphNode node) {
    return set(exec, node, &parameters, owner);
  };
}

std::optional<NodeWork> fill_work(Operands& operands) {
  World& world = operands.world();
  CUDA_MEMSET_NODE_PARAMS parameters{};
  parameters.elementSize = 1u << world.random.below(3);
  const Part part = operands.of_copy(operands.context().device, parameters.elementSize, SIZE_MAX);
  if (part.bytes == 0) return std::nullopt;
  parameters.dst = part.at;
  parameters.value = static_cast<unsigned>(world.random.next());
  if (parameters.elementSize < 4) parameters.value &= (1u << 8 * parameters.elementSize) - 1;
  parameters.width = part.bytes / parameters.elementSize;
  parameters.height = 1;
  if (part.bytes >= 4 * row_pitch && world.random.one_in(6)) {
    parameters.pitch = row_pitch;
    parameters.width = 100;
    parameters.height = 4;
  }
  NodeWork work;
  work.text = "fill of " + std::to_string(parameters.elementSize) + " " + part.name + " x " +
              std::to_string(parameters.height);
  work.buffers = {part.buffer};
  make_calls(work, parameters, operands.context().handle, driver.f_cuGraphAddMemsetNode,
             driver.f_cuGraphExecMemsetNodeSetParams);
  return work;
}

std::optional<NodeWork> copy_work(Operands& operands, const NodeShape& shape) {
  World& world = operands.world();
  const bool from_host = shape.source == NodeShape::host;
  const Part target = operands.of_copy(shape.target, 1, world.source.size());
  if (target.bytes == 0) return std::nullopt;
  Part source;
  source.bytes = target.bytes;
  if (!from_host) source = operands.of_copy(shape.source, 1, target.bytes);
  if (source.bytes == 0 || (!from_host && source.buffer == target.buffer)) return std::nullopt;
  CUDA_MEMCPY3D parameters{};
  parameters.srcMemoryType = parameters.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  parameters.srcDevice = source.at;
  parameters.dstDevice = target.at;
  if (from_host) {
    parameters.srcMemoryType = CU_MEMORYTYPE_HOST;
    parameters.srcHost = &world.source[world.random.below(world.source.size() - target.bytes + 1)];
  } else if (world.random.one_in(3)) {
    parameters.srcMemoryType = parameters.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  }
  parameters.WidthInBytes = std::min(source.bytes, target.bytes);
  parameters.Height = parameters.Depth = 1;
  if (parameters.WidthInBytes >= 4 * row_pitch && world.random.one_in(6)) {
    parameters.srcPitch = parameters.dstPitch = row_pitch;
    parameters.WidthInBytes = 100 + world.random.below(row_pitch - 100);
    parameters.Height = 3;
  }
  NodeWork work;
  work.text = "copy " + target.name + " from " + (from_host ? "the host" : source.name) + " x " +
              std::to_string(parameters.Height);
  work.buffers = {target.buffer};
  if (!from_host) work.buffers.push_back(source.buffer);
  make_calls(work, parameters, operands.context().handle, driver.f_cuGraphAddMemcpyNode,
             driver.f_cuGraphExecMemcpyNodeSetParams);
  return work;
}

std::optional<NodeWork> any_work(Operands& operands, const NodeShape& shape) {
  switch (shape.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return kernel_work(operands);
    case CU_GRAPH_NODE_TYPE_MEMSET: return fill_work(operands);
    default: return copy_work(operands, shape);
  }
}

void add_buffers(std::vector<std::size_t>& all, const std::vector<std::size_t>& used) {
  for (const std::size_t buffer : used) {
    if (std::ranges::find(all, buffer) == all.end()) all.push_back(buffer);
  }
}

/// Nodes of these shapes, one behind the other, as long as there is memory for them.
Graph build(World& world, std::size_t context, const std::vector<NodeShape>& shapes,
            Operands operands) {
  Graph made;
  made.context = context;
  world.note(driver.f_cuGraphCreate(&made.handle, 0), "cuGraphCreate");
  for (const NodeShape& shape : shapes) {
    const std::optional<NodeWork> work = any_work(operands, shape);
    if (!work) continue;
    Node node{nullptr, shape};
    const CUgraphNode* const before = made.nodes.empty() ? nullptr : &made.nodes.back().handle;
    const CUresult result = work->add(made.handle, before, before != nullptr, &node.handle);
    if (world.note(result, "a node: %s", work->text.c_str()) != CUDA_SUCCESS) continue;
    made.nodes.push_back(node);
    add_buffers(made.buffers, work->buffers);
  }
  return made;
}

/// Takes the parameters of a graph that is alike.
CUresult change_all(World& world, std::size_t number, Graph& used) {
  const Graph& graph = world.graphs[number];
  std::vector<NodeShape> shapes;
  for (const Node& node : graph.nodes) shapes.push_back(node.shape);
  used = build(world, graph.context, shapes, Operands::of_update(world, graph.context));
  CUgraphExecUpdateResultInfo info{};
  const CUresult result = driver.f_cuGraphExecUpdate(graph.exec, used.handle, &info);
  world.note(result, "cuGraphExecUpdate g%zu by its like", number);
  world.say("because %d", static_cast<int>(info.result));
  world.note(driver.f_cuGraphDestroy(used.handle), "cuGraphDestroy");
  return result;
}

CUresult change_one(World& world, std::size_t number, Graph& used) {
  const Graph& graph = world.graphs[number];
  const std::size_t place = world.random.below(graph.nodes.size());
  const Node& node = graph.nodes[place];
  Operands operands = Operands::of_update(world, graph.context);
  const std::optional<NodeWork> work = any_work(operands, node.shape);
  if (!work) return CUDA_ERROR_NOT_FOUND;
  used.buffers = work->buffers;
  return world.note(work->set(graph.exec, node.handle), "g%zu: another %zu: %s", number, place,
                    work->text.c_str());
}

}  // namespace

Graph build_graph(World& world, std::size_t context) {
  std::vector<NodeShape> shapes(1 + world.random.below(5));
  for (NodeShape& shape : shapes) shape = any_shape(world, context);
  Graph made = build(world, context, shapes, Operands(world, context));
  if (made.nodes.empty()) {
    world.note(driver.f_cuGraphDestroy(made.handle), "cuGraphDestroy");
    return made;
  }
  world.note(driver.f_cuGraphInstantiateWithFlags(&made.exec, made.handle, 0),
             "cuGraphInstantiate g%zu", world.graphs.size());
  return made;
}

void change_nodes(World& world, std::size_t number) {
  // Memory does not move where an update wants it while another thread captures.
  const auto is_kernel = [](const Node& node) {
    return node.shape.type == CU_GRAPH_NODE_TYPE_KERNEL;
  };
  if (!world.alone() && !std::ranges::all_of(world.graphs[number].nodes, is_kernel)) return;
  Graph used;
  const CUresult result =
      world.random.one_in(3) ? change_all(world, number, used) : change_one(world, number, used);
  if (result != CUDA_SUCCESS) return;
  Graph& graph = world.graphs[number];
  for (const std::size_t buffer : used.buffers) {
    if (std::ranges::find(graph.buffers, buffer) != graph.buffers.end()) continue;
    graph.buffers.push_back(buffer);
    ++world.buffers[buffer].graphs;
  }
}

}  // namespace fuzz
