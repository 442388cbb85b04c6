#include "migrate/live/ways.hpp"

#include <vma/error.hpp>

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

/// How many chunks settle in a context of our own after a thread has blocked the application's
/// context.
constexpr int beside_count = 8;

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
  if (facts.from.kind != Place::Kind::gpu) {
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

void WayChooser::leave_application_context() noexcept {
  chunks_beside_ = beside_count;
}

void WayChooser::note_moved() noexcept {
  if (chunks_beside_ > 0) --chunks_beside_;
}

bool WayChooser::may_suspend(const Transaction& chunk) const {
  return parts_.stops.is_known_to_suspend(chunk.from(), chunk.to());
}

void WayChooser::foresee(const Transaction& chunk) {
  const Address allocation = chunk.allocation().begin();
  if (gates_arrive_soon_ || !may_suspend(chunk) || !parts_.stops.attached().any(allocation)) return;
  gates_arrive_soon_ = parts_.stops.gate_arrives_soon(allocation);
}

/// Whoever attaches streams has promised that all work that may use the memory is on such streams.
StopKind WayChooser::stop_for(const Transaction& chunk) const {
  const bool attached = parts_.stops.attached().any(chunk.allocation().begin());
  if (may_suspend(chunk) && !(attached && gates_arrive_soon_.value_or(false)))
    return StopKind::suspension;
  if (attached) return StopKind::gate;
  return parts_.memory.driver().has_context_hold() ? StopKind::hold : StopKind::gate;
}

WayChoice WayChooser::choose(const Transaction& chunk, Mode mode) const {
  const Allocation& allocation = chunk.allocation();
  const StopKind stop = stop_for(chunk);
  GatePlan plan;
  if (stop == StopKind::gate) {
    const AttachedStreams::Use streams(parts_.stops.attached(), allocation.begin());
    plan = plan_gate(streams.streams(), parts_.memory.topology());
  }
  WayFacts facts;
  facts.from = chunk.from();
  facts.to = chunk.to();
  facts.mode = mode;
  facts.target_clean = chunk.target_clean();
  facts.dirty = allocation.dirtiness;
  facts.application_waits = chunks_beside_ > 0;
  // What settles while everything is stopped does so in a context of the runtime's own.
  if (facts.from.kind == Place::Kind::gpu && stop == StopKind::gate) {
    facts.application = parts_.copiers.application_context(DeviceId{facts.from.ordinal});
  }
  WayChoice choice = choose_way(facts, plan, parts_.memory.topology(), [&](ContextHandle context) {
    return parts_.memory.topology().info(parts_.memory.driver().context_device(context)).max_queues;
  });
  choice.stop = stop;
  choice.gives_way = stop == StopKind::gate && may_suspend(chunk);
  if (stop != StopKind::gate && choice.way == Way::live_beside) {
    choice.reason = fmt::format(
        "live in a context of our own: {}",
        stop == StopKind::hold ? "the program's contexts are held" : "the program is suspended");
  }
  return choice;
}

void WayChooser::require(const WayChoice& choice, const Transaction& chunk, Mode mode) {
  if (choice.way == Way::none) {
    throw Error(ErrorKind::unsupported, live_move_call,
                fmt::format("{}; raise CUDA_DEVICE_MAX_CONNECTIONS, attach fewer streams, or ask "
                            "for StopScope::hold",
                            choice.reason));
  }
  if (mode != Mode::live || choice.way != Way::stopped) return;
  throw Error(
      ErrorKind::unsupported, live_move_call,
      fmt::format("the chunk at offset {} cannot move live from {} to {} ({}); use Mode::automatic "
                  "or Mode::stopped, which stop the attached streams for its copy",
                  chunk.slot() * chunk.allocation().geometry().chunk_bytes, to_string(chunk.from()),
                  to_string(chunk.to()), choice.reason));
}

}  // namespace vma
