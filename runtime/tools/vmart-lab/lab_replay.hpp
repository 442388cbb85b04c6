#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace vma {

struct ReplayCommand {
  std::string trace;
  std::string machine = "h200x4";  ///< A name or a path, as `load_machine` takes it.
  std::string policy = "cost_benefit";
  std::string router = "least_loaded";
  std::string pacing = "timed";             ///< Or "at_once".
  std::optional<double> hbm_gib, host_gib;  ///< Capacities, instead of the machine's.
  std::optional<double> half_life_ms;       ///< Of the short average of use; the long one has ten.
  std::string calibration;                  ///< A file; empty: the machine's own costs.
  double ahead_ms = 0;                      ///< Of work that is launched at once; 0: none.
  double stall_budget_ms = 0;               ///< Of a second, for gates; 0: no limit.
  double chunk_mib = 32;                    ///< Where the trace does not say.
  std::uint64_t bad_lines_max = 0;
  bool json = false;
};

/// Replays a trace and prints what came of it. Returns the exit status. Throws: Error for a trace,
/// machine, policy or router that is unavailable.
int run_replay(const ReplayCommand& command);

}  // namespace vma
