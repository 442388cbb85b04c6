#pragma once

#include "lab/bounds/loops/loop_graph.hpp"
#include "lab/replay/replay_machine.hpp"
#include "lab/trace/trace_source.hpp"

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace vma {

/// Where objects begin for which the trace names no place, by number.
using ObjectHomes = std::unordered_map<std::uint64_t, TracePlace>;

/// A placement without moves that knows the whole trace. What loses most per byte held, if it lies
/// at its worst place, is placed first: where its uses take least, among the places with room all
/// its life. Lives are those of the trace's times. In a replay they may be longer, a place full,
/// and a part elsewhere: the time of that replay is what a policy could reach, not an optimum.
/// Objects of which the trace names the place keep it, and their room.
ObjectHomes hindsight_homes(const LoopGraph& graph, const ReplayMachine& machine);

/// A trace with the places of `homes` in its allocations. Not thread-safe.
class PlacedTrace : public TraceSource {
 public:
  /// Requires: both outlive it.
  PlacedTrace(TraceSource& source, const ObjectHomes& homes);
  std::span<const TraceEvent> next() override;

 private:
  TraceSource& source_;
  const ObjectHomes& homes_;
  std::vector<TraceEvent> events_;  // Those returned last.
};

}  // namespace vma
