#pragma once

#include "base/process_exit.hpp"
#include "interpose/graphs/graph_operands.hpp"

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
  vmart_location place{};
};

/// Where the operands of executable graphs lay when these were instantiated: the driver takes no
/// others in an update. Known of those that had left the GPU where the program believes them, since
/// the others are expected there. Any thread.
class GraphPlaces {
 public:
  /// Never destroyed: the program destroys graphs until the process ends.
  static GraphPlaces& get() noexcept { return only<GraphPlaces>(); }

  /// Throws: std::bad_alloc. Requires: nothing was switched since the driver has made the exec.
  void instantiated(CUgraphExec exec, const std::vector<GraphNode>& nodes);
  /// The exec is about to be destroyed.
  void forget(CUgraphExec exec) noexcept;

  /// Where new operands of the node must lie. Throws: std::bad_alloc.
  std::vector<PlacedOperand> places_of(CUgraphExec exec, CUgraphNode node,
                                       const std::vector<vmart_use>& operands);
  /// Where those of these nodes must lie, which replace the nodes of the child graph of the node,
  /// or all nodes if it is null. Throws: std::bad_alloc.
  std::vector<PlacedOperand> places_of(CUgraphExec exec, CUgraphNode node,
                                       const std::vector<GraphNode>& nodes);

 private:
  struct Known {
    CUgraphNode node = nullptr;
    std::size_t nested = 0;  ///< Nodes of a child graph, which follow it.
    // Where its operands lay, unless that is where they are expected.
    std::optional<vmart_location> read_at;
    std::optional<vmart_location> written_at;
  };
  friend Immortal<GraphPlaces>;
  GraphPlaces() = default;
  static void place(const Known& known, const std::vector<vmart_use>& operands,
                    std::vector<PlacedOperand>& out);

  std::shared_mutex mutex_;
  std::unordered_map<CUgraphExec, std::vector<Known>> execs_;
};

/// Moves operands to their places, and keeps them there while it exists; one at a time. An operand
/// that cannot move stays where it is. Blocks: for moves, and until the contexts and modules are
/// gone that others destroy.
class HeldOperands {
 public:
  explicit HeldOperands(const std::vector<PlacedOperand>& operands);
  ~HeldOperands();
  HeldOperands(const HeldOperands&) = delete;
  HeldOperands& operator=(const HeldOperands&) = delete;

  bool any() const noexcept { return !pins_.empty(); }

 private:
  void hold(const PlacedOperand& operand) noexcept;

  std::unique_lock<std::mutex> alone_;  // Others' pins would keep operands away.
  std::vector<vmart_pin*> pins_;
};

}  // namespace vma::interpose
