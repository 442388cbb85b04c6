#include "migrate/live/way_chooser.hpp"

#include "migrate/gates/gate_plan.hpp"
#include "migrate/live/live_ranges.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

namespace vma {

bool WayChooser::may_suspend(const LiveChunk& chunk) const {
  return parts_.stops.is_known_to_suspend(chunk.transaction.from(), chunk.range.task->to);
}

bool WayChooser::may_hold() const {
  return parts_.memory.driver().has_context_hold();
}

bool WayChooser::has_streams(const LiveChunk& chunk) const {
  return parts_.stops.attached().any(chunk.range.allocation.begin());
}

bool WayChooser::foresee_gates(const LiveChunk& chunk) {
  if (!has_streams(chunk)) return false;
  if (!gates_arrive_soon_) {
    gates_arrive_soon_ = parts_.stops.gate_arrives_soon(chunk.range.allocation.begin());
  }
  return *gates_arrive_soon_;
}

/// Whoever attaches streams has promised that all work that may use the memory is on such streams.
StopKind WayChooser::stop_for(const LiveChunk& chunk) const {
  if (has_streams(chunk) && gates_arrive_soon_.value_or(false)) return StopKind::gate;
  if (may_suspend(chunk)) return StopKind::suspension;
  return may_hold() ? StopKind::hold : StopKind::gate;
}

WayChoice WayChooser::choose(const LiveChunk& chunk) const {
  const Allocation& allocation = chunk.range.allocation;
  const MigrationTask& task = *chunk.range.task;
  const StopKind stop = stop_for(chunk);
  GatePlan plan;
  if (stop == StopKind::gate) {
    const AttachedStreams::Use streams(parts_.stops.attached(), allocation.begin());
    plan = plan_gate(streams.streams(), parts_.memory.topology());
  }
  WayFacts facts;
  facts.from = chunk.transaction.from();
  facts.to = task.to;
  facts.mode = task.options.mode;
  facts.target_clean = chunk.transaction.target_clean();
  facts.dirty = allocation.dirtiness;
  WayChoice choice = choose_way(facts, plan, parts_.memory.topology(), [&](ContextHandle context) {
    return parts_.memory.topology().info(parts_.memory.driver().context_device(context)).max_queues;
  });
  choice.stop = stop;
  choice.gives_way = stop == StopKind::gate && (may_hold() || may_suspend(chunk));
  return choice;
}

void WayChooser::require(const LiveChunk& chunk) {
  if (chunk.choice.way == Way::none) {
    throw Error(ErrorKind::unsupported, live_move_call,
                fmt::format("{}; raise CUDA_DEVICE_MAX_CONNECTIONS, attach fewer streams, or ask "
                            "for StopScope::hold",
                            chunk.choice.reason));
  }
  const MigrationTask& task = *chunk.range.task;
  if (task.options.mode == Mode::live && chunk.choice.way == Way::stopped) {
    throw Error(
        ErrorKind::unsupported, live_move_call,
        fmt::format(
            "the chunk at offset {} cannot move live from {} to {} ({}); use Mode::automatic or "
            "Mode::stopped, which stop the attached streams for its copy",
            chunk.transaction.slot() * chunk.range.allocation.geometry().chunk_bytes,
            to_string(chunk.transaction.from()), to_string(task.to), chunk.choice.reason));
  }
}

}  // namespace vma
