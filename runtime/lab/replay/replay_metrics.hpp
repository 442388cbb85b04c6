#pragma once

#include "lab/replay/replay_machine.hpp"
#include "lab/replay/replay_report.hpp"

#include <boost/json/object.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vma {

/// Tolerance around the final slowdown of a phase.
constexpr double at_rest_within = 0.05;
/// Minimum number of windows with accesses in a phase; with fewer it has no result.
constexpr std::size_t settling_windows_min = 8;

/// How long the placement took to come to rest after each mark, in the order of the marks. That is
/// the time from the mark to the first window from which the slowdown (`access_s / local_s` of a
/// window) stays within `at_rest_within` of its final level until the next mark or the end. The
/// final level is the median of the last quarter of the phase's windows, all of which must stay
/// within the tolerance. 0 if the whole phase does; null if the phase never settles, or has fewer
/// than `settling_windows_min` windows. Ignores windows without accesses, and windows that contain
/// a mark; so the resolution is one window.
std::vector<std::optional<Time>> rest_times(const ReplayReport& report);

/// The metrics that compare replays, and that an experiment stores per cell. Undefined ones are
/// null: a share of zero bytes, the slowdown of zero accesses.
struct ReplayMetrics {
  double seconds = 0;  ///< The makespan: from the first event to the end of the last access.
  std::uint64_t accesses = 0;
  double bytes = 0;
  double access_s = 0;  ///< Sum of all access durations.
  double local_s = 0;   ///< Their durations if all memory were in the device's HBM, unshared.
  double excess_s = 0;  ///< access_s - local_s
  std::optional<double> slowdown;  ///< access_s / local_s
  double paused_s = 0;  ///< The part of access_s in which the devices were stopped at gates.
  /// Sum of all waiting times, from arrival to begin, without that at gates; of an access that the
  /// trace holds back, with it.
  double wait_s = 0;
  double move_s = 0;         ///< Sum of the durations that all moves would take alone.
  double access_move_s = 0;  ///< access_s + move_s, which lower bounds limit.
  /// (access_s - paused_s) + wait_s + stopped_s + (move_s less the stalls in it): time at gates
  /// counts once for each device that stands with work, whatever number of accesses it delays, and
  /// again for each access that the trace holds back.
  double cost_s = 0;
  double floor_s = 0;  ///< Cost if all accesses were local and none waited: local_s.
  std::optional<double> excess_ratio;  ///< (cost_s - floor_s) / floor_s
  std::uint64_t moves = 0, bytes_moved = 0;
  double stall_s = 0;          ///< Summed over moves: the time while all devices were stopped.
  double skew_s = 0;           ///< Summed over moves: the time until the last device was stopped.
  double stopped_s = 0;        ///< Summed over devices: stopped at gates with work to do.
  std::uint64_t thrashes = 0;  ///< Moves from B back to A after A to B, within the planner's
                               ///< window.
  /// Shares of the accessed bytes: in the device's own HBM, another GPU's, and host memory.
  std::optional<double> own_share, peer_share, host_share;
  /// Largest shares of one device of all accesses, and of all accessed bytes.
  std::optional<double> device_accesses_max, device_share_max;
  /// Jain's index of the slowdowns x over tags, and over devices, that have accesses: (sum x)^2 /
  /// (n sum x^2). 1: all equal; 1/n: one has everything. (Jain, Chiu, Hawe, "A quantitative measure
  /// of fairness and discrimination", DEC-TR-301, 1984.)
  std::optional<double> fairness_tenants, fairness_devices;
  std::optional<double> rest_s;  ///< Mean of `rest_times` over the marks that settled.
  std::uint64_t marks_at_rest = 0, marks = 0;
  /// Of closed loops: the number of requests, and of all that came, how long their first task took
  /// from its earliest start (for a serving trace, the time to the first token), and how long one
  /// step of their repeated tasks took (the time per further token). p99: the nearest rank.
  std::uint64_t requests = 0;
  std::optional<double> first_mean_s, first_p99_s, step_mean_s, step_p99_s;
  /// Of the requests: how many waited to be admitted, how long each did (also after preemptions),
  /// how often one was preempted, and what they did again: steps (tokens) that they had done, and
  /// the bytes that they wrote again.
  std::uint64_t requests_queued = 0, preemptions = 0, steps_again = 0;
  std::optional<double> queue_mean_s, queue_p99_s;
  double bytes_again = 0;
  /// Requests that met all limits of `RequestLimits`: a second, and their share. Null without
  /// limits.
  std::optional<double> goodput, limits_met;
  double link_use_max = 0;  ///< Use of the busiest link.
  /// Use of each link: bytes carried / (capacity * seconds).
  std::map<std::string, double> links;
  std::uint64_t accesses_lost = 0, allocations_lost = 0, chunks_spilled = 0, policy_failures = 0;
  friend bool operator==(const ReplayMetrics&, const ReplayMetrics&) = default;
};

/// Service level objectives of requests: how long the first task may take from its earliest start,
/// and how long a step may take on average.
struct RequestLimits {
  std::optional<Time> first, step;
};

/// Requires: the report comes from a replay on this machine.
ReplayMetrics metrics_of(const ReplayReport& report, const ReplayMachine& machine,
                         const RequestLimits& limits = {});

/// (sum x)^2 / (n sum x^2); null without values, or if all are zero.
std::optional<double> jain_index(std::span<const double> values);

/// A device that most accesses happen on.
struct CrowdedDevice {
  std::size_t device = 0;
  double share = 0;  ///< Of all accesses.
};
/// The device with the most accesses, if it has more than half of them and more than 1.5 times its
/// equal share. Null for one device: there is nothing to route.
std::optional<CrowdedDevice> crowded_device(const ReplayReport& report);

/// The keys are the names of the members.
boost::json::object to_json(const ReplayMetrics& metrics);

}  // namespace vma
