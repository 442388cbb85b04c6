#include "tools/vmart-lab/lab_commands.hpp"

#include "base/units.hpp"
#include "lab/policies/lab_policies.hpp"

#include <boost/json/serialize.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace vma {
namespace {

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
  const SingleReplay replay = replay_trace(command, lab_policies());
  if (replay.bad_lines > 0) fmt::print(stderr, "{} bad lines were skipped\n", replay.bad_lines);
  warn_of_crowds(command, replay.report);
  if (command.json) {
    fmt::print("{}\n", boost::json::serialize(to_json(replay)));
  } else {
    print(command, replay.report);
    print(replay.metrics, replay.report);
  }
  return 0;
}

}  // namespace vma
