#pragma once

#include "simcuda/boundary.hpp"
#include "simcuda/library.hpp"
#include "simcuda/modules.hpp"
#include "simcuda/handle_table.hpp"

#include "base/mutex.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

namespace vma {

/// Calls its function once its last reference is gone.
class UserObject {
 public:
  UserObject(void* data, CUhostFn destroy, unsigned int references)
      : data_(data), destroy_(destroy), references_(references) {}
  void retain(unsigned int count) { references_ += count; }
  /// Throws: Refusal{INVALID_VALUE} if there are fewer references.
  void release(unsigned int count);

 private:
  void* const data_;
  const CUhostFn destroy_;
  std::atomic<unsigned int> references_;
};

/// References to user objects, which end with it.
class HeldObjects {
 public:
  HeldObjects() = default;
  ~HeldObjects();
  HeldObjects(const HeldObjects&) = delete;
  HeldObjects& operator=(const HeldObjects&) = delete;
  void add(std::shared_ptr<UserObject> object, unsigned int count);

 private:
  struct Held {
    std::shared_ptr<UserObject> object;
    unsigned int count = 0;
  };
  Mutex mutex_;
  std::vector<Held> held_ VMART_GUARDED_BY(mutex_);
};

struct Graph;

/// A kernel of a node, and its parameters as the program may read them: one word each.
struct NodeKernel {
  CUfunction function = nullptr;
  CUcontext context = nullptr;
  LaunchShape shape;
  std::vector<std::uint64_t> words;
  std::vector<void*> pointers;  ///< To the words.
};

/// What a node does, as far as the program may ask for it.
using NodeContents = std::variant<std::monostate, NodeKernel, CUDA_MEMCPY3D,
                                  CUDA_MEMSET_NODE_PARAMS_v1, std::shared_ptr<Graph>>;

/// A copy or a fill.
using Transfer = std::variant<CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS_v1>;
/// What a node of a graph that the program builds does.
using BuiltStep = std::variant<ChainStep, Transfer>;

/// One node of a graph.
struct Node {
  Graph* graph = nullptr;
  std::size_t step = 0;  ///< Its place among the steps of a graph that is built.
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  NodeContents contents;
  CUgraph child = nullptr;  ///< The handle of a child graph, which the node owns.
};

NodeContents contents_of(const Function& function, LaunchShape shape,
                         const KernelArguments& arguments);

/// A captured graph, whose work the simulator keeps, or one that the program builds: its nodes run
/// in the order in which they were added. The program synchronises its calls.
struct Graph {
  ~Graph();

  GraphHandle captured{};
  bool capturing = false;
  BoundStream origin;  ///< The stream, while it is `capturing`.
  ContextHandle context{};
  std::vector<BuiltStep> steps;
  std::vector<CUgraphNode> nodes;
  std::shared_ptr<HeldObjects> objects = std::make_shared<HeldObjects>();
};

/// The steps of a graph that can be launched: chains of kernels and batches, and between these
/// copies and fills, each with the places where its memory lay when the graph was instantiated. As
/// with the driver, these take only memory that lies there now.
class BuiltSteps {
 public:
  /// Throws: Refusal or Error.
  explicit BuiltSteps(const Graph& graph);
  ~BuiltSteps();
  BuiltSteps(const BuiltSteps&) = delete;
  BuiltSteps& operator=(const BuiltSteps&) = delete;

  void launch(CUstream stream) const;
  /// Throws: Refusal or Error, and nothing has changed.
  void update(std::size_t number, BuiltStep step);
  /// Takes those of a graph that is alike.
  CUgraphExecUpdateResult update_all(const Graph& graph);

 private:
  struct Part {
    std::size_t first = 0;  ///< The number of its first step.
    std::vector<BuiltStep> steps;
    ExecGraphHandle chain{};  ///< Unless its only step is a copy or a fill.
    std::vector<Place> places;
  };
  static std::vector<ChainStep> chain_of(const Part& part);

  std::vector<Part> parts_;
};

/// Throws: Refusal for what the simulator lacks, and for memory that is not there.
Transfer checked(const CUDA_MEMCPY3D* copy);
Transfer checked(const CUDA_MEMSET_NODE_PARAMS_v1* fill);
/// Enqueues what the node of a graph does. Like the launch of a graph, this looks no memory of
/// GPUs up, which may be dark.
void enqueue(const Transfer& what, CUstream stream);

/// A graph that can be launched.
struct ExecGraph {
  ~ExecGraph();

  ExecGraphHandle handle{};           ///< None for a built graph.
  const Graph* of = nullptr;          ///< Only compared with that of a node.
  std::unique_ptr<BuiltSteps> built;  ///< Unless it was captured.
  std::shared_ptr<HeldObjects> objects;
};

struct Graphs {
  HandleTable<Graph> graphs;
  HandleTable<ExecGraph> exec_graphs;
  HandleTable<Node> nodes;
  HandleTable<UserObject> user_objects;
};
inline Graphs& graphs() {
  static Graphs& all = *new Graphs;
  return all;
}

/// Adds a node to the graph, with a handle for the program.
CUgraphNode add_node_to(Graph& graph, Node node);
/// If the stream captures: its graph has such a node, which has just been added to the capture.
void note_captured(BoundStream stream, CUgraphNodeType type, const NodeContents& contents);
inline void note_captured(BoundStream stream, const Function& function, LaunchShape shape,
                          const KernelArguments& arguments) {
  note_captured(stream, CU_GRAPH_NODE_TYPE_KERNEL, contents_of(function, shape, arguments));
}

}  // namespace vma
