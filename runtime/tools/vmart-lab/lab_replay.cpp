#include "tools/vmart-lab/lab_commands.hpp"

#include "base/units.hpp"
#include "costs/calibration_file.hpp"
#include "lab/fidelity/recorded_machine.hpp"
#include "lab/replay/replay.hpp"
#include "lab/replay/replay_inputs.hpp"
#include "lab/replay/replay_metrics.hpp"
#include "lab/replay/replay_report.hpp"
#include "lab/trace/trace_files.hpp"
#include "machine/machine_file.hpp"
#include "lab/policies/lab_policies.hpp"
#include "scheduling/policy_library.hpp"

#include <vma/error.hpp>

#include <boost/json/serialize.hpp>
#include <boost/json/value_from.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

namespace vma {
namespace {

Time time_of(double ms, double least, double most, std::string_view option) {
  return milliseconds_of(ms, least, most, option, "vmart-lab replay");
}

/// Has the same effect as `VMART_HALF_LIFE_MS`.
void set_half_life(HeatLimits& heat, double ms) {
  heat.half_life_short = time_of(ms, 1, 86'400'000, "--half-life");
  heat.half_life_long = heat.half_life_short * 10;
}

/// Runs the replay; its errors name the trace file.
ReplayReport run(Replay& replay, TraceSource& trace, const std::string& path) {
  try {
    return replay.run(trace);
  } catch (const Error& error) {
    if (error.call() != "Replay::run") throw;
    throw Error(error.kind(), "vmart-lab replay", fmt::format("{}: {}", path, error.what()));
  }
}

void print(const ReplayMetrics& metrics, const ReplayReport& report) {
  fmt::print(
      "cost {:.3f} s: accesses {:.3f} s, waiting {:.3f} s, devices stopped {:.3f} s, moves without"
      " stalls {:.3f} s\n",
      metrics.cost_s, metrics.access_s - metrics.paused_s, metrics.wait_s, metrics.stopped_s,
      report.move_s - report.move_stall_s);
  if (metrics.slowdown && metrics.own_share) {
    fmt::print(
        "slowdown {:.3f}; {:.1f} % of the bytes in their device's HBM, {:.1f} % in a peer's,"
        " {:.1f} % in host memory\n",
        *metrics.slowdown, 100 * *metrics.own_share, 100 * *metrics.peer_share,
        100 * *metrics.host_share);
  }
  if (metrics.fairness_tenants && metrics.fairness_devices) {
    fmt::print("fairness {:.3f} over tags, {:.3f} over devices\n", *metrics.fairness_tenants,
               *metrics.fairness_devices);
  }
  if (metrics.first_mean_s && metrics.step_mean_s) {
    fmt::print("{} requests: first task {:.4f} s (p99 {:.4f}), a step {:.4f} s (p99 {:.4f})\n",
               metrics.requests, *metrics.first_mean_s, *metrics.first_p99_s, *metrics.step_mean_s,
               *metrics.step_p99_s);
  }
  if (metrics.requests_queued > 0) {
    fmt::print("{} requests waited for memory, on average {:.4f} s a request (p99 {:.4f})\n",
               metrics.requests_queued, *metrics.queue_mean_s, *metrics.queue_p99_s);
  }
  if (metrics.preemptions > 0) {
    fmt::print("{} preemptions: {} steps and {:.3f} GiB done again\n", metrics.preemptions,
               metrics.steps_again, metrics.bytes_again / GiB);
  }
  if (metrics.goodput && metrics.limits_met) {
    fmt::print("goodput {:.3f} requests/s: {:.1f} % met the limits\n", *metrics.goodput,
               100 * *metrics.limits_met);
  }
  if (metrics.link_use_max > 0) {
    const auto busiest =
        std::ranges::max_element(metrics.links, {}, [](const auto& link) { return link.second; });
    fmt::print("the busiest link is {}: {:.1f} % used\n", busiest->first, 100 * busiest->second);
  }
  fmt::print("{} moves were undone\n", metrics.thrashes);
  if (metrics.marks > 0) {
    fmt::print("{} of {} phases at rest", metrics.marks_at_rest, metrics.marks);
    if (metrics.rest_s) fmt::print(", in {:.3f} s on average", *metrics.rest_s);
    fmt::print("\n");
  }
}

void print_shares(const ReplayReport& report) {
  if (report.devices.size() < 2 || report.accesses == 0) return;
  fmt::print("share of accesses (of bytes) a device:");
  for (const ReplayDevice& device : report.devices) {
    fmt::print(" {:.1f} % ({:.1f} %)",
               100 * static_cast<double>(device.accesses) / static_cast<double>(report.accesses),
               report.bytes > 0 ? 100 * device.bytes / report.bytes : 0.0);
  }
  fmt::print("\n");
}

/// A result in which one device has most of the work says little about placement.
void warn_of_crowds(const ReplayCommand& command, const ReplayReport& report) {
  const std::optional<CrowdedDevice> crowded = crowded_device(report);
  if (!crowded) return;
  fmt::print(stderr, "warning: {}: with router {}, {:.1f} % of the accesses are on {}\n",
             command.trace, command.router, 100 * crowded->share, report.places[crowded->device]);
}

void print(const ReplayCommand& command, const ReplayReport& report) {
  fmt::print("{} on {} with {}, {} router: {:.3f} s\n", command.trace, command.machine,
             command.policy, command.router, report.seconds());
  fmt::print("{} accesses of {:.3f} GiB took {:.3f} s; at home they would take {:.3f} s\n",
             report.accesses, report.bytes / GiB, report.access_s, report.local_s);
  print_shares(report);
  for (const auto& [place, bytes] : report.bytes_by_place)
    fmt::print("  {:>8} {:14.3f} GiB\n", place, bytes / GiB);
  fmt::print("{} moves of {:.3f} GiB; they stopped streams for {:.3f} s, plus {:.3f} s of skew\n",
             report.moves, static_cast<double>(report.bytes_moved) / GiB,
             static_cast<double>(report.stall.count()) / 1e9,
             static_cast<double>(report.skew.count()) / 1e9);
  for (const auto& [reason, times] : report.moves_refused)
    fmt::print("  refused {:>10} x {}\n", times, reason);
  if (report.chunks_spilled > 0)
    fmt::print("{} chunks had no room at their target\n", report.chunks_spilled);
  if (report.allocations_lost > 0)
    fmt::print("{} allocations had no room anywhere; {} accesses to them were skipped\n",
               report.allocations_lost, report.accesses_lost);
  if (report.policy_failures > 0)
    fmt::print("the policy failed {} times\n", report.policy_failures);
}

}  // namespace

int run_replay(const ReplayCommand& command) {
  ReplayOptions options;
  options.pacing = parse_pacing(command.pacing);
  options.chunk_bytes = bytes_of(command.chunk_mib, MiB, "--chunk");
  if (command.half_life_ms) set_half_life(options.scheduler.heat, *command.half_life_ms);
  options.stall_budget = time_of(command.stall_budget_ms, 0, 1000, "--stall-budget");
  options.scheduler.planner.stall_ahead =
      time_of(command.stall_ahead_ms, 0, 86'400'000, "--stall-ahead");
  options.scheduler.pace.watches = !command.no_pace_guard;
  options.use_interval = time_of(command.use_interval_ms, 0.01, 86'400'000, "--use-interval");
  options.admission = parse_admission(command.admission);
  options.admission_memory = parse_admission_memory(command.admission_memory);
  const RequestLimits limits =
      request_limits(command.slo_first_ms, command.slo_step_ms, "vmart-lab replay");
  options.ahead = time_of(command.ahead_ms, 0, 1000, "--ahead");
  ReplayMachine machine = replay_machine(load_machine(command.machine));
  if (!command.calibration.empty())
    machine = calibrated_machine(std::move(machine), read_calibration(command.calibration));
  cap_places(machine, {command.hbm_gib, command.host_gib});
  const auto trace = open_trace(command.trace, command.bad_lines_max);
  Replay replay(machine, options, load_policy(command.policy, lab_policies()),
                make_router(command.router));
  const ReplayReport report = run(replay, *trace, command.trace);
  const std::uint64_t bad_lines = trace->bad_lines() == nullptr ? 0 : trace->bad_lines()->count();
  if (bad_lines > 0) fmt::print(stderr, "{} bad lines were skipped\n", bad_lines);
  warn_of_crowds(command, report);
  const ReplayMetrics metrics = metrics_of(report, machine, limits);
  if (command.json) {
    boost::json::object json = to_json(report);
    json["metrics"] = to_json(metrics);
    json["inputs"] =
        boost::json::object{{"trace", command.trace},
                            {"machine", machine.name},
                            {"policy", command.policy},
                            {"router", command.router},
                            {"pacing", command.pacing},
                            {"admission", command.admission},
                            {"admission_memory", command.admission_memory},
                            {"slo_first_ms", boost::json::value_from(command.slo_first_ms)},
                            {"slo_step_ms", boost::json::value_from(command.slo_step_ms)},
                            {"chunk_bytes", options.chunk_bytes},
                            {"calibration", command.calibration},
                            {"stall_budget_ms", command.stall_budget_ms},
                            {"stall_ahead_ms", command.stall_ahead_ms},
                            {"no_pace_guard", command.no_pace_guard},
                            {"use_interval_ms", command.use_interval_ms},
                            {"ahead_ms", command.ahead_ms},
                            {"bad_lines", bad_lines}};
    fmt::print("{}\n", boost::json::serialize(json));
  } else {
    print(command, report);
    print(metrics, report);
  }
  return 0;
}

}  // namespace vma
