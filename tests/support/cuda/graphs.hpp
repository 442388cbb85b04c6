#pragma once

#include "support/cuda/boundary.hpp"
#include "support/cuda/library.hpp"
#include "support/cuda/objects.hpp"

#include "base/mutex.hpp"

#include <atomic>
#include <memory>
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

/// One node of a graph that the program builds.
struct Node {
  const Graph* graph = nullptr;
  std::size_t step = 0;  ///< Its place among the steps or the fills of the graph.
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
};

/// A captured graph, whose nodes the simulator keeps, or one that the program builds, of kernels
/// and batches or of fills: those run in the order in which they were added. The program
/// synchronises its calls.
struct Graph {
  ~Graph();

  GraphHandle captured{};
  bool capturing = false;
  BoundStream origin;  ///< The stream, while it is `capturing`.
  ContextHandle context{};
  std::vector<ChainStep> steps;
  std::vector<CUDA_MEMSET_NODE_PARAMS> fills;
  std::vector<CUgraphNode> nodes;
  std::shared_ptr<HeldObjects> objects = std::make_shared<HeldObjects>();
};

/// A fill, and where its memory lay when its graph was instantiated.
struct Fill {
  CUDA_MEMSET_NODE_PARAMS what{};
  Location home;
};
std::vector<Fill> fills_of(const Graph& graph);
void launch(const std::vector<Fill>& fills, BoundStream stream);

/// A graph that can be launched.
struct ExecGraph {
  ~ExecGraph();

  ExecGraphHandle handle{};
  const Graph* of = nullptr;     ///< Only compared with that of a node.
  std::vector<ChainStep> steps;  ///< Those of the next launch; empty for a captured graph.
  std::vector<Fill> fills;
  std::shared_ptr<HeldObjects> objects;
};

struct Graphs {
  Objects<Graph> graphs;
  Objects<ExecGraph> exec_graphs;
  Objects<Node> nodes;
  Objects<UserObject> user_objects;
};
inline Graphs& graphs() {
  static Graphs& all = *new Graphs;
  return all;
}

}  // namespace vma
