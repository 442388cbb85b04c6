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

/// The metrics by which replays are compared, and which an experiment keeps of a cell. Undefined
/// ones are null: a share of no bytes, a slowdown of no accesses.
struct ReplayMetrics {
  double seconds = 0;  ///< From the first event to the end of the last access: the makespan.
  std::uint64_t accesses = 0;
  double bytes = 0;
  double access_s = 0;             ///< Sum over all accesses, from begin to end.
  double local_s = 0;              ///< Their time if everything is in their devices' HBM, unshared.
  double excess_s = 0;             ///< access_s - local_s
  std::optional<double> slowdown;  ///< access_s / local_s
  double wait_s = 0;               ///< Sum over all accesses, from arrival to begin.
  double move_s = 0;               ///< Sum over all moves of what each takes by itself.
  double cost_s = 0;               ///< access_s + move_s: compared with lower bounds.
  std::uint64_t moves = 0, bytes_moved = 0;
  double stall_s = 0;          ///< Sum over all moves, while all devices were stopped.
  double skew_s = 0;           ///< Sum over all moves, until the last device was stopped.
  std::uint64_t thrashes = 0;  ///< Moves undone: from A to B to A, within the planner's window.
  /// Shares of accessed bytes: in the accessing device's HBM, in another GPU's, in host memory.
  std::optional<double> own_share, peer_share, host_share;
  /// Jain's index of the slowdown x over tags, and over devices, with accesses: (sum x)^2 / (n sum
  /// x^2). 1: all alike; 1/n: one bears it all. (Jain, Chiu, Hawe, "A quantitative measure of
  /// fairness and discrimination", DEC-TR-301, 1984.)
  std::optional<double> fairness_tenants, fairness_devices;
  std::optional<double> settle_s;  ///< Mean of `settling_times`, over marks that settled.
  std::uint64_t marks_settled = 0, marks = 0;
  double link_use_max = 0;  ///< That of the busiest link.
  /// By link: bytes that it carried / (its capacity * seconds).
  std::map<std::string, double> links;
  std::uint64_t accesses_lost = 0, allocations_lost = 0, chunks_spilled = 0, policy_failures = 0;
  friend bool operator==(const ReplayMetrics&, const ReplayMetrics&) = default;
};

/// Requires: the report is from a replay on this machine.
ReplayMetrics metrics_of(const ReplayReport& report, const ReplayMachine& machine);

/// (sum x)^2 / (n sum x^2); null without values, or if all are zero.
std::optional<double> jain_index(std::span<const double> values);

/// Keys are the fields' names.
boost::json::object to_json(const ReplayMetrics& metrics);

}  // namespace vma
