#include "migrate/gates/gate_plan.hpp"

#include <algorithm>
#include <set>

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

}  // namespace vma
