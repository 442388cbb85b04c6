#pragma once

#include "lab/routing/router.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace vma {

struct ReplayCommand {
  std::string trace;
  std::string machine = "h200x4";  ///< A name or a path, as in `load_machine`.
  std::string policy = "cost_benefit";
  std::string router{default_router};
  std::string pacing = "timed";             ///< Or "at_once".
  std::optional<double> hbm_gib, host_gib;  ///< Capacities that replace the machine's.
  /// Of the short average of use; the long one is ten times as long.
  std::optional<double> half_life_ms;
  std::string calibration;               ///< A file. If empty, the machine's own costs apply.
  std::string admission = "preempt";     ///< Of requests: or "none", "queue".
  std::string admission_memory = "all";  ///< Or "hbm".
  std::optional<double> slo_first_ms, slo_step_ms;  ///< Limits of requests, for goodput.
  double use_interval_ms = 10;  ///< How often a long access is reported to the policy.
  double ahead_ms = 0;  ///< Work that a program launches before it waits for it; 0: one kernel.
  double stall_budget_ms = 0;    ///< Per second, for gates; 0: no limit.
  double stall_ahead_ms = 4000;  ///< Of the planner's stall budget; 0: nothing is spent ahead.
  double chunk_mib = 32;         ///< Used where the trace gives no chunk size.
  std::uint64_t bad_lines_max = 0;
  bool json = false;
};

/// Replays a trace and prints the result. Returns the exit status. Throws: Error if a trace,
/// machine, policy or router is unavailable.
int run_replay(const ReplayCommand& command);

}  // namespace vma
