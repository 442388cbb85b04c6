#pragma once

#include "lab/replay/replay_machine.hpp"
#include "lab/replay/replay_report.hpp"

#include <boost/json/object.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

namespace vma {

/// The figures by which replays are compared: what an experiment keeps of a cell. What there is
/// nothing to make of is null: a share of no bytes, a slowdown of no accesses.
struct ReplayMetrics {
  double seconds = 0;  ///< From the first event to the end of the last access: the makespan.
  std::uint64_t accesses = 0;
  double bytes = 0;
  double access_s = 0;             ///< Sum over all accesses, from beginning to end.
  double local_s = 0;              ///< What they take if all lies in their devices' HBM, unshared.
  double excess_s = 0;             ///< access_s - local_s
  std::optional<double> slowdown;  ///< access_s / local_s
  double wait_s = 0;               ///< Sum over all accesses, from when they came until they began.
  double move_s = 0;               ///< Sum over all moves of what each takes by itself.
  double cost_s = 0;               ///< access_s + move_s: what a lower bound is held against.
  std::uint64_t moves = 0, bytes_moved = 0;
  double stall_s = 0;          ///< Sum over all moves, while every device stood.
  double skew_s = 0;           ///< Sum over all moves, until the last device stood.
  std::uint64_t thrashes = 0;  ///< Moves undone: from A to B to A, within the planner's window.
  /// Of accessed bytes: in the HBM of the device that accesses, of another GPU, in host memory.
  std::optional<double> own_share, peer_share, host_share;
  /// Jain's index of the slowdown x over tags, and over devices, that have accesses:
  /// (sum x)^2 / (n sum x^2). 1: all alike; 1/n: one bears it all. (Jain, Chiu, Hawe, "A
  /// quantitative measure of fairness and discrimination", DEC-TR-301, 1984.)
  std::optional<double> fairness_tenants, fairness_devices;
  std::optional<double> settle_s;  ///< Mean of `settling_times`, over marks that settled.
  std::uint64_t marks_settled = 0, marks = 0;
  double link_use_max = 0;  ///< Of the busiest link.
  /// By link: bytes that it carried / (its capacity * seconds).
  std::map<std::string, double> links;
  std::uint64_t accesses_lost = 0, allocations_lost = 0, chunks_spilled = 0, policy_failures = 0;
  friend bool operator==(const ReplayMetrics&, const ReplayMetrics&) = default;
};

/// Requires: the report is of a replay on this machine.
ReplayMetrics metrics_of(const ReplayReport& report, const ReplayMachine& machine);

/// (sum x)^2 / (n sum x^2); null of no values, or of zeros only.
std::optional<double> jain_index(std::span<const double> values);

/// Keys are the fields' names.
boost::json::object to_json(const ReplayMetrics& metrics);

}  // namespace vma
