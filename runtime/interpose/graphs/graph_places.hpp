#pragma once

#include "interpose/graphs/graph_nodes.hpp"
#include "interpose/limits.hpp"
#include "interpose/program_memory.hpp"
#include "interpose/uses.hpp"

#include <vma/vmart.h>

#include <cuda.h>

#include <cstddef>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

namespace vma::interpose {

/// Memory of the program, and the place where the driver takes it for an operand.
struct PlacedOperand {
  CUdeviceptr address = 0;
  CUdeviceptr begin = 0;  ///< Of the allocation.
  vmart_place place{};
};

/// Where the operands of executable graphs lay when these were instantiated: the driver takes no
/// others in an update. Known of those that had left the GPU where the program believes them, since
/// the others are expected there. Any thread.
class GraphPlaces {
 public:
  GraphPlaces(ProgramMemory& memory, const Uses& uses) noexcept : memory_(memory), uses_(uses) {}

  /// The nodes of the graph and its child graphs; only copies and fills show what they use.
  /// Requires: vmart is loaded. Throws: std::bad_alloc.
  std::vector<GraphNode> copies_and_fills_of(CUgraph graph) const;

  /// Throws: std::bad_alloc. Requires: nothing was switched since the driver has made the exec.
  void instantiated(CUgraphExec exec, const std::vector<GraphNode>& nodes);
  /// The exec is about to be destroyed.
  void forget(CUgraphExec exec) noexcept;

  /// Where the operands must lie of a node with these parameters, which may be null: those of a
  /// copy, a fill or a node of any type. Requires: vmart is loaded. Throws: std::bad_alloc.
  std::vector<PlacedOperand> places_of(CUgraphExec exec, CUgraphNode node,
                                       const CUDA_MEMCPY3D* copy);
  std::vector<PlacedOperand> places_of(CUgraphExec exec, CUgraphNode node,
                                       const CUDA_MEMSET_NODE_PARAMS* fill);
  std::vector<PlacedOperand> places_of(CUgraphExec exec, CUgraphNode node,
                                       const CUgraphNodeParams* what);
  /// Where those of the graph must lie, whose nodes replace those of the child graph of the node,
  /// or all nodes if it is null. Requires and throws: the same.
  std::vector<PlacedOperand> places_of(CUgraphExec exec, CUgraphNode node, CUgraph graph);

 private:
  struct Known {
    CUgraphNode node = nullptr;
    std::size_t nested = 0;  ///< Nodes of a child graph, which follow it.
    // Where its operands lay, unless that is where they are expected.
    std::optional<vmart_place> read_at;
    std::optional<vmart_place> written_at;
  };
  GraphNodeReader reader() const noexcept;
  std::vector<PlacedOperand> places_of_operands(CUgraphExec exec, CUgraphNode node,
                                                const std::vector<vmart_use>& operands);
  std::optional<vmart_place> away(CUdeviceptr address) const;
  void place(const Known& known, const std::vector<vmart_use>& operands,
             std::vector<PlacedOperand>& out) const;

  ProgramMemory& memory_;
  const Uses& uses_;
  std::shared_mutex mutex_;
  std::unordered_map<CUgraphExec, std::vector<Known>> execs_;
};

/// Moves operands to their places, and keeps them there while it exists; one at a time. An operand
/// that cannot move stays where it is. Blocks: for moves, and until the contexts and modules are
/// gone that others destroy.
class HeldOperands {
 public:
  HeldOperands(ProgramMemory& memory, const Limits& limits,
               const std::vector<PlacedOperand>& operands);
  ~HeldOperands();
  HeldOperands(const HeldOperands&) = delete;
  HeldOperands& operator=(const HeldOperands&) = delete;

  bool any() const noexcept { return !pins_.empty(); }

 private:
  vmart_status move(void* begin, const vmart_place& place) noexcept;
  void hold(const PlacedOperand& operand) noexcept;

  ProgramMemory& memory_;
  const Limits& limits_;
  std::unique_lock<std::mutex> alone_;  // Others' pins would keep operands away.
  std::vector<vmart_pin*> pins_;
};

}  // namespace vma::interpose
