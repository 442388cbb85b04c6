#include "migrate/live/live_way.hpp"

#include <fmt/format.h>

namespace vma {
namespace {

/// From this share on a live copy costs more than it saves: docs/results/live_moves.md has both
/// ways at every share.
constexpr double dirty_max = 0.8;

}  // namespace

WayChoice choose_way(const WayFacts& facts, const GatePlan& plan, const Topology& topology,
                     const std::function<int(ContextHandle)>& queues_of) {
  for (const auto& [context, stops] : plan.stops_in) {
    const int queues = queues_of(context);
    if (stops <= queues) continue;
    return {Way::none,
            fmt::format("{} streams cannot all wait in the {} hardware queues of their context",
                        stops, queues)};
  }
  if (facts.target_clean) return {Way::remapped, "remapped: a clean copy lay there"};
  if (facts.mode == Mode::stopped) return {Way::stopped, "stopped: asked for"};
  if (facts.from.kind != Location::Kind::gpu) {
    return {Way::stopped,
            "stopped: the source is host memory, which no GPU can digest fast enough"};
  }
  if (!topology.reaches(DeviceId{facts.from.ordinal}, facts.to)) {
    return {Way::stopped, fmt::format("stopped: {} does not reach {}", to_string(facts.from),
                                      to_string(facts.to))};
  }
  if (facts.mode == Mode::automatic && facts.dirty > dirty_max) {
    return {Way::stopped, "stopped: nearly all of the last chunks had been written again"};
  }
  return {Way::live, ""};
}

}  // namespace vma
