#include "interpose/graphs/graph_uses.hpp"

#include "interpose/vmart_library.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <utility>

namespace vma::interpose {
namespace {

// The time between two records of an exec's launches: this, or so many times what a record takes.
constexpr std::int64_t record_period_ns = 1'000'000;
constexpr std::int64_t record_share = 200;

// The most kernels that `BlindLaunches` is told of at once, so that other launches count, too.
constexpr double noted_max = 256;

}  // namespace

// --- ExecUses

ExecUses::ExecUses(Uses& uses, std::vector<GraphNode> nodes) : uses_(uses) {
  append(std::move(nodes));
}

void ExecUses::append(std::vector<GraphNode> nodes) {
  for (GraphNode& node : nodes) {
    add(node, 1);
    places_[node.handle] = nodes_.size();
    nodes_.push_back(std::move(node));
  }
}

void ExecUses::add(const GraphNode& node, int times) {
  if (!node.enabled) return;
  const NodeUses& uses = node.uses;
  if (uses.is_kernel) {
    Kernels& kernels = kernels_[uses.gpu];
    (uses.uses.empty() ? kernels.blind : kernels.shown) += times;
  }
  for (const vmart_use& use : uses.uses) {
    const auto known =
        passes_.try_emplace({use.address, use.size_bytes, use.gpu, use.kind}, 0).first;
    known->second += static_cast<double>(times) * static_cast<double>(use.passes);
    if (known->second < 1e-6) passes_.erase(known);  // Sums of fractions.
  }
}

void ExecUses::replace_all(std::vector<GraphNode> by) {
  const std::lock_guard lock(mutex_);
  record_launches();
  if (by.size() == nodes_.size()) return replace_from(0, nodes_.size(), std::move(by));
  nodes_.clear();
  places_.clear();
  passes_.clear();
  kernels_.clear();
  append(std::move(by));
}

/// Keeps the handles, since the program goes on to name nodes by those of the graph that it
/// instantiated. The driver takes only graphs of the same nodes in the same order.
void ExecUses::replace_from(std::size_t first, std::size_t count, std::vector<GraphNode> by) {
  for (std::size_t i = 0; i < count; ++i) {
    GraphNode& node = nodes_[first + i];
    NodeUses& uses = by[i].uses;
    add(node, -1);
    if (!uses.gpu_is_told && node.uses.gpu >= 0) {  // A node stays in its context.
      uses.gpu = node.uses.gpu;
      for (vmart_use& use : uses.uses) use.gpu = uses.gpu;
    }
    node.uses = std::move(uses);
    add(node, 1);
  }
}

void ExecUses::replace(CUgraphNode node, NodeUses by) {
  const std::lock_guard lock(mutex_);
  record_launches();
  const auto known = places_.find(node);
  std::vector<GraphNode> one(1);
  one[0].handle = node;
  one[0].uses = std::move(by);
  if (known != places_.end()) return replace_from(known->second, 1, std::move(one));
  append(std::move(one));
}

void ExecUses::replace_child(CUgraphNode node, std::vector<GraphNode> by) {
  const std::lock_guard lock(mutex_);
  record_launches();
  const auto known = places_.find(node);
  if (known == places_.end() || nodes_[known->second].nested != by.size()) return;
  replace_from(known->second + 1, by.size(), std::move(by));
}

void ExecUses::enable(CUgraphNode node, bool enabled) {
  const std::lock_guard lock(mutex_);
  record_launches();
  const auto known = places_.find(node);
  if (known == places_.end()) return;
  GraphNode& changed = nodes_[known->second];
  add(changed, -1);
  changed.enabled = enabled;
  add(changed, 1);
}

void ExecUses::launched() noexcept {
  launches_.fetch_add(1, std::memory_order_relaxed);
  const std::int64_t now = now_ns();
  std::int64_t next = next_record_ns_.load(std::memory_order_relaxed);
  if (now < next || !next_record_ns_.compare_exchange_strong(next, now + record_period_ns)) {
    return;
  }
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;  // It is being changed. The next launch records this one, too.
  record_launches();
  const std::int64_t took = now_ns() - now;
  next_record_ns_.store(now + std::max(record_period_ns, took * record_share));
}

void ExecUses::record_rest() noexcept {
  const std::lock_guard lock(mutex_);
  record_launches();
}

void ExecUses::record_launches() noexcept {
  const std::uint32_t launches = launches_.exchange(0, std::memory_order_relaxed);
  if (launches == 0) return;
  for (const auto& [gpu, kernels] : kernels_) {
    const double all = static_cast<double>(kernels.shown + kernels.blind) * launches;
    const double part = all > noted_max ? noted_max / all * launches : launches;
    uses_.launches().note(gpu, static_cast<std::uint32_t>(kernels.shown * part),
                          static_cast<std::uint32_t>(kernels.blind * part));
  }
  std::array<vmart_use, 64> batch;
  std::size_t count = 0;
  for (const auto& [range, passes] : passes_) {
    batch[count++] = {range.begin, range.bytes, range.gpu, range.kind,
                      static_cast<float>(passes * launches)};
    if (count < batch.size()) continue;
    uses_.record(batch);
    count = 0;
  }
  uses_.record(std::span(batch).first(count));
}

// --- GraphUses

bool GraphUses::may_read() noexcept {
  return uses_.are_read() && VmartLibrary::loaded() != nullptr && reading_.has_some();
}

std::shared_ptr<ExecUses> GraphUses::find(CUgraphExec exec) noexcept {
  const std::shared_lock lock(mutex_);
  const auto known = execs_.find(exec);
  return known != execs_.end() ? known->second : nullptr;
}

void GraphUses::instantiated(CUgraphExec exec, CUgraph graph) noexcept try {
  forget(exec);  // It may have ended with its context.
  if (!may_read()) return;
  const TimeBudget::Spending spending(reading_);
  GraphNodeReader reader(*DriverLibrary::get(), uses_);
  auto uses = std::make_shared<ExecUses>(uses_, reader.nodes_of(graph));
  const std::lock_guard lock(mutex_);
  execs_[exec] = std::move(uses);
} catch (const std::exception&) {  // Without memory, its launches are blind.
}

void GraphUses::updated(CUgraphExec exec, CUgraph graph) noexcept {
  change(exec, [&](ExecUses& uses, GraphNodeReader& reader) {
    uses.replace_all(reader.nodes_of(graph));
  });
}

void GraphUses::child_changed(CUgraphExec exec, CUgraphNode node, CUgraph child) noexcept {
  change(exec, [&](ExecUses& uses, GraphNodeReader& reader) {
    uses.replace_child(node, reader.nodes_of(child));
  });
}

void GraphUses::enabled(CUgraphExec exec, CUgraphNode node, bool enabled) noexcept {
  change(exec, [&](ExecUses& uses, GraphNodeReader&) { uses.enable(node, enabled); });
}

void GraphUses::launched(CUgraphExec exec) noexcept {
  if (!uses_.are_read() || VmartLibrary::loaded() == nullptr) return;
  if (const std::shared_ptr<ExecUses> uses = find(exec)) return uses->launched();
  uses_.launches().note(current_gpu(), 0, 1);
}

void GraphUses::forget(CUgraphExec exec) noexcept {
  if (!uses_.are_read() || VmartLibrary::loaded() == nullptr) return;
  std::shared_ptr<ExecUses> ended;  // Destroyed without the lock, for which launches wait.
  {
    const std::lock_guard lock(mutex_);
    const auto known = execs_.find(exec);
    if (known == execs_.end()) return;
    ended = std::move(known->second);
    execs_.erase(known);
  }
  ended->record_rest();
}

}  // namespace vma::interpose
