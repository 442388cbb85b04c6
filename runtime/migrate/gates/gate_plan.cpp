#include "migrate/gates/gate_plan.hpp"

#include <algorithm>
#include <utility>

namespace vma {
namespace {

/// The stop for the stream, created if there is none yet.
GateStop& stop_for(GatePlan& plan, BoundStream stopped) {
  const auto known = std::ranges::find_if(plan.stops, [&](const GateStop& stop) {
    return stop.stream.context == stopped.context && stop.stream.handle == stopped.handle;
  });
  if (known != plan.stops.end()) return *known;
  ++plan.stops_in[stopped.context];
  return plan.stops.emplace_back(GateStop{stopped, {stopped}, false});
}

/// What the streams of one context have in common.
struct InContext {
  std::set<StreamHandle> apart;     // Those that can stop by themselves.
  std::set<StreamHandle> blocking;  // Those among them that the legacy stream orders.
  bool built_in = false;
  bool together = false;
  int queues_max = 0;

  bool stops_legacy() const {
    const bool fits = static_cast<int>(apart.size()) <= queues_max;
    return built_in || (blocking.size() > 1 && (together || !fits));
  }
};

std::map<ContextHandle, InContext> by_context(std::span<const AttachedStreams::Stream> streams,
                                              const Topology& topology) {
  std::map<ContextHandle, InContext> contexts;
  for (const AttachedStreams::Stream& stream : streams) {
    InContext& in = contexts[stream.bound.context];
    in.queues_max = topology.info(stream.device).max_queues;
    if (is_built_in(stream.bound.handle)) {
      in.built_in = true;
      continue;
    }
    in.apart.insert(stream.bound.handle);
    if (stream.kind != StreamKind::blocking) continue;
    in.blocking.insert(stream.bound.handle);
    in.together |= stream.together;
  }
  return contexts;
}

}  // namespace

GatePlan plan_gate(std::span<const AttachedStreams::Stream> streams, const Topology& topology) {
  const auto contexts = by_context(streams, topology);
  GatePlan plan;
  for (const AttachedStreams::Stream& stream : streams) {
    const BoundStream bound = stream.bound;
    if (stream.kind != StreamKind::blocking || !contexts.at(bound.context).stops_legacy()) {
      stop_for(plan, bound).graphs |= stream.graphs;
      continue;
    }
    GateStop& stop = stop_for(plan, {bound.context, StreamHandle{}});
    stop.graphs |= stream.graphs;
    // The legacy stream is checked in place of those that no other thread can query.
    if (!is_built_in(bound.handle)) stop.capture_watched.push_back(bound);
  }
  return plan;
}

GateStreams::GateStreams(AttachedStreams& attached, const Topology& topology,
                         std::vector<Address> allocations)
    : attached_(attached), topology_(topology), allocations_(std::move(allocations)) {}

void GateStreams::name() {
  last_attach_ = attached_.last_attach(allocations_);
  use_.emplace(attached_, allocations_);
  plan_ = plan_gate(use_->streams(), topology_);
  for (const AttachedStreams::Stream& stream : use_->streams()) gpus_.insert(stream.device);
}

std::optional<StopRefusal> GateStreams::require_any() const {
  if (!plan_.stops.empty()) return std::nullopt;
  return StopRefusal{StopRefusal::streams_changed,
                     "the program detached every stream that may use the memory"};
}

void GateStreams::keep() {
  if (!nobody_attaches_) nobody_attaches_.emplace(attached_.attaching());
}

std::optional<StopRefusal> GateStreams::require_same() {
  keep();
  if (attached_.last_attach(allocations_) == last_attach_) return std::nullopt;
  return StopRefusal{StopRefusal::streams_changed,
                     "the program attached a stream while the gate was closed"};
}

void GateStreams::let_go() noexcept {
  if (use_) use_->end();
  nobody_attaches_.reset();
}

}  // namespace vma
