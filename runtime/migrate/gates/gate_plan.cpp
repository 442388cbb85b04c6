#include "migrate/gates/gate_plan.hpp"

#include <algorithm>

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

/// Whether it is the only blocking stream of its context.
bool is_alone(const AttachedStreams::Stream& stream,
              std::span<const AttachedStreams::Stream> streams) {
  return !is_built_in(stream.bound.handle) &&
         std::ranges::none_of(streams, [&](const AttachedStreams::Stream& other) {
           return other.bound.context == stream.bound.context &&
                  other.bound.handle != stream.bound.handle && other.kind == StreamKind::blocking;
         });
}

}  // namespace

GatePlan plan_gate(std::span<const AttachedStreams::Stream> streams) {
  GatePlan plan;
  for (const AttachedStreams::Stream& stream : streams) {
    const BoundStream bound = stream.bound;
    if (stream.kind != StreamKind::blocking || is_alone(stream, streams)) {
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
