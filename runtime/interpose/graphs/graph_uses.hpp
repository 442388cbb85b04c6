#pragma once

#include "abi/run_table.hpp"
#include "interpose/graphs/graph_nodes.hpp"
#include "interpose/work/launches.hpp"

#include <cuda.h>

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <unordered_map>
#include <vector>

namespace vma::interpose {

/// What an executable graph uses at each launch: the uses of its nodes, summed up by range. Counts
/// launches, and records them together from time to time. Any thread.
class ExecUses {
 public:
  ExecUses(Uses& uses, std::vector<GraphNode> nodes);

  /// The nodes got the parameters of those of another graph, which has the same shape. Throws:
  /// std::bad_alloc.
  void replace_all(std::vector<GraphNode> by);
  /// The node got other parameters. Throws: std::bad_alloc.
  void replace(CUgraphNode node, NodeUses by);
  /// The nodes of the child graph that the node has got other parameters. Throws: std::bad_alloc.
  void replace_child(CUgraphNode node, std::vector<GraphNode> by);
  void enable(CUgraphNode node, bool enabled);
  /// Counts a launch, and records all launches unless that was done a moment ago. Never waits.
  void launched() noexcept;
  /// No launch follows.
  void record_rest() noexcept;

 private:
  struct Range {
    const void* begin = nullptr;
    std::size_t bytes = 0;
    int gpu = 0;
    int kind = 0;
    auto operator<=>(const Range&) const = default;
  };
  struct Kernels {
    int shown = 0;  ///< That show what they use.
    int blind = 0;
  };

  // Requires, for all of these: the caller holds `mutex_`.
  void add(const GraphNode& node, int times);
  void replace_from(std::size_t first, std::size_t count, std::vector<GraphNode> by);
  void append(std::vector<GraphNode> nodes);
  /// Records those that are not recorded yet. Also called before a change: they used what was known
  /// before it.
  void record_launches() noexcept;

  Uses& uses_;
  std::atomic<std::uint32_t> launches_ = 0;  // Not recorded yet.
  std::atomic<std::int64_t> next_record_ns_ = 0;
  std::mutex mutex_;  // For all that follows.
  std::vector<GraphNode> nodes_;
  std::unordered_map<CUgraphNode, std::size_t> places_;  // Among the nodes.
  std::map<Range, double> passes_;
  std::map<int, Kernels> kernels_;  // By the GPU.
};

/// The uses of all executable graphs, if uses are read at all. Any thread.
class GraphUses {
 public:
  explicit GraphUses(Uses& uses) noexcept : uses_(uses) {}

  void instantiated(CUgraphExec exec, CUgraph graph) noexcept;
  void updated(CUgraphExec exec, CUgraph graph) noexcept;
  void child_changed(CUgraphExec exec, CUgraphNode node, CUgraph child) noexcept;
  void enabled(CUgraphExec exec, CUgraphNode node, bool enabled) noexcept;
  /// `parameters` are those of a kernel, a copy or a fill, and may be null.
  template <typename Parameters>
  void changed(CUgraphExec exec, CUgraphNode node, const Parameters* parameters) noexcept {
    if (parameters == nullptr) return;
    change(exec, [&](ExecUses& uses, GraphNodeReader& reader) {
      uses.replace(node, reader.uses_of(*parameters));
    });
  }
  void launched(CUgraphExec exec) noexcept;
  /// The exec is about to be destroyed.
  void forget(CUgraphExec exec) noexcept;

 private:
  /// Calls `body(uses, reader)` if the exec is known and there is time left for that.
  template <typename Body>
  void change(CUgraphExec exec, Body&& body) noexcept;
  std::shared_ptr<ExecUses> find(CUgraphExec exec) noexcept;
  bool may_read() noexcept;

  Uses& uses_;
  std::shared_mutex mutex_;
  std::unordered_map<CUgraphExec, std::shared_ptr<ExecUses>> execs_;
  // Programs that make or change graphs all the time pay a hundredth of their time for reading
  // these, and at most so much more.
  static constexpr std::int64_t reading_ns = 1'000'000'000;
  static constexpr std::int64_t reading_share = 100;
  TimeBudget reading_{reading_ns, reading_share};
};

template <typename Body>
void GraphUses::change(CUgraphExec exec, Body&& body) noexcept try {
  if (!may_read()) return;
  const auto uses = find(exec);
  if (uses == nullptr) return;
  const TimeBudget::Spending spending(reading_);
  GraphNodeReader reader(*DriverLibrary::get(), uses_);
  body(*uses, reader);
} catch (const std::exception&) {  // Without memory, what was known counts.
}

}  // namespace vma::interpose
