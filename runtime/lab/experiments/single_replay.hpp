#pragma once

#include "lab/replay/replay_machine.hpp"
#include "lab/replay/replay_metrics.hpp"
#include "lab/replay/replay_report.hpp"
#include "lab/routing/router.hpp"
#include "lab/trace/trace_audit.hpp"
#include "placement/policies/policy_registry.hpp"

#include <boost/json/object.hpp>

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>

namespace vma {

/// One replay as a user asks for it, on a command line or in Python.
/// One owner: what the user says; nothing follows from it here.
struct ReplaySetting {
  std::string trace;
  std::string machine = "h200x4";  ///< A name or a path, as in `load_machine`.
  std::string policy = "cost_benefit";
  std::string router{default_router};
  std::string pacing = "timed";             ///< Or "at_once".
  std::optional<double> hbm_gib, host_gib;  ///< Capacities that replace the machine's.
  /// HBM of all GPUs together as a share of what the trace has at once, as in an experiment's file.
  std::optional<double> hbm_share;
  std::optional<TraceRoom> room;  ///< What the trace has, if the caller knows it: for `hbm_share`.
  /// Of the short average of use; the long one is ten times as long.
  std::optional<double> half_life_ms;
  std::string calibration;               ///< A file. If empty, the machine's own costs apply.
  std::string admission = "preempt";     ///< Of requests: or "none", "queue".
  std::string admission_memory = "all";  ///< Or "hbm".
  std::optional<double> slo_first_ms, slo_step_ms;  ///< Limits of requests, for goodput.
  double use_interval_ms = 10;  ///< How often a long access is reported to the policy.
  std::string uses = "exact";   ///< Or "launches", "base_pointers": what policies are told of uses.
  double unseen = 0;            ///< The share of objects that no launch shows.
  std::string stop = "gate";    ///< Or "suspension".
  double ahead_ms = 0;  ///< Work that a program launches before it waits for it; 0: one kernel.
  double stall_budget_ms = 0;    ///< Per second, for gates; 0: no limit.
  double stall_ahead_ms = 4000;  ///< Of the planner's stall budget; 0: nothing is spent ahead.
  bool no_pace_guard = false;    ///< Moves go on whatever the pace of closed loops is.
  double chunk_mib = 32;         ///< Used where the trace gives no chunk size.
  std::uint64_t bad_lines_max = 0;
  /// Not for command lines: as in `ReplaySchedulerLimits`.
  std::function<bool(const std::exception&)> ends_it;
};

struct SingleReplay {
  ReplaySetting setting;
  ReplayMachine machine;
  ReplayReport report;
  ReplayMetrics metrics;
  std::uint64_t chunk_bytes = 0, bad_lines = 0;
  std::string trace_name;  ///< That in the trace's header.
};

/// Replays the trace with a policy that `policies` knows, or one of a library. `at_tick` is as in
/// `ReplayOptions`; may be empty. Throws: Error if a trace, machine, policy or router is
/// unavailable, or the replay fails; what `at_tick` throws.
SingleReplay replay_trace(const ReplaySetting& setting, const PolicyRegistry& policies,
                          std::function<void()> at_tick = {});

/// The report with `metrics` and `inputs`: what `vmart-lab replay --json` prints.
boost::json::object to_json(const SingleReplay& replay);

}  // namespace vma
