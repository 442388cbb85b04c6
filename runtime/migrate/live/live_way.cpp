#include "migrate/live/live_way.hpp"

#include <fmt/format.h>

namespace vma {
namespace {

/// From this share on a live copy costs more than it saves: docs/results/live_moves.md has both
/// ways at every share.
constexpr double dirty_max = 0.8;

int stops_in(const GatePlan& plan, ContextHandle context) {
  const auto found = plan.stops_in.find(context);
  return found == plan.stops_in.end() ? 0 : found->second;
}

}  // namespace

WayChoice choose_way(const WayFacts& facts, const GatePlan& plan, const Topology& topology,
                     const std::function<int(ContextHandle)>& queues_of) {
  for (const auto& [context, stops] : plan.stops_in) {
    const int queues = queues_of(context);
    if (stops <= queues) continue;
    return {Way::none,
            fmt::format("{} streams cannot all wait in the {} hardware queues of their context",
                        stops, queues),
            false};
  }
  if (facts.target_clean) return {Way::remapped, "remapped: a clean copy lay there", true};
  if (facts.mode == Mode::stopped) return {Way::stopped, "stopped: asked for", true};
  if (facts.from.kind != Location::Kind::gpu) {
    return {Way::stopped, "stopped: the source is host memory, which no GPU can digest fast enough",
            true};
  }
  if (!topology.reaches(DeviceId{facts.from.ordinal}, facts.to)) {
    return {
        Way::stopped,
        fmt::format("stopped: {} does not reach {}", to_string(facts.from), to_string(facts.to)),
        true};
  }
  if (facts.mode == Mode::automatic && facts.dirty > dirty_max) {
    return {Way::stopped, "stopped: nearly all of the last chunks had been written again", true};
  }
  if (is_none(facts.application)) {
    return {Way::live_beside,
            fmt::format("live in a context of our own: the application has none on {}",
                        to_string(facts.from)),
            true};
  }
  if (facts.application_waits) {
    // Settling would wait there before the streams stop, a thread that frees memory would wait
    // behind it, and our launches behind that.
    return {Way::live_beside,
            "live in a context of our own: a thread of the application waits for its context",
            true};
  }
  const int free_queues = queues_of(facts.application) - stops_in(plan, facts.application);
  if (free_queues < 1) {
    return {Way::live_beside,
            "live in a context of our own: the streams to stop use every hardware queue", true};
  }
  return {Way::live, "", free_queues >= 2};
}

}  // namespace vma
