#pragma once

#include <vma/snapshot.hpp>

#include <boost/json/fwd.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace vma {

/// Totals of one device in a replay.
struct ReplayDevice {
  std::uint64_t accesses = 0;
  double bytes = 0;
  Time busy{0};                        ///< Sum of its access durations.
  Time stopped{0};                     ///< While a gate kept waiting work from starting.
  double local_s = 0;                  ///< Duration of its accesses if all memory were in its HBM.
  std::vector<double> bytes_by_place;  ///< Bytes accessed, in the order of `ReplayReport::places`.
  friend bool operator==(const ReplayDevice&, const ReplayDevice&) = default;
};

/// Totals of the accesses to objects with one tag, for example of a tenant or a kind of data.
struct ReplayTenant {
  std::uint64_t accesses = 0;
  double bytes = 0;
  double access_s = 0;
  double local_s = 0;  ///< Their duration if all memory were in the devices' HBM.
  friend bool operator==(const ReplayTenant&, const ReplayTenant&) = default;
};

/// What a request of a closed loop lost to others because of memory.
struct ReplayDelays {
  Time queued{0};  ///< Waited to be admitted, also after it was preempted.
  std::uint64_t preemptions = 0;
  /// Summed over preemptions: steps of repeated tasks, such as tokens, that it had done, and bytes
  /// that it wrote again.
  std::uint64_t steps_again = 0;
  double bytes_again = 0;
  friend bool operator==(const ReplayDelays&, const ReplayDelays&) = default;
};

/// What a request of a closed loop took: the tasks that name it.
struct ReplayRequest {
  std::uint64_t number = 0;
  Time came{0};             ///< The earliest start of its first task.
  Time first{0}, last{0};   ///< The ends of its first task, such as the prompt's, and of its last.
  std::uint64_t steps = 0;  ///< Of its repeated tasks, such as tokens.
  Time stepping{0};         ///< How long these took, from when they could begin.
  ReplayDelays delays;

  Time until_first() const { return first - came; }
  /// The mean; 0 without steps.
  Time a_step() const {
    return steps > 0 ? stepping / static_cast<Time::rep>(steps) : Time::zero();
  }
  friend bool operator==(const ReplayRequest&, const ReplayRequest&) = default;
};

/// A time window of the replay.
struct ReplayWindow {
  double bytes = 0;
  double access_s = 0, local_s = 0;
  std::uint64_t bytes_moved = 0;
  /// Bytes at each place at the end of the window, in the order of `ReplayReport::places`.
  std::vector<std::uint64_t> resident;
  friend bool operator==(const ReplayWindow&, const ReplayWindow&) = default;
};

/// The result of a replay. Times are virtual.
struct ReplayReport {
  Time begin{0};             ///< Time of the trace's first event.
  Time end{0};               ///< End of the last access.
  bool closed_loop = false;  ///< The trace declared tasks.
  std::uint64_t events = 0, accesses = 0;
  std::uint64_t accesses_lost = 0;     ///< Their objects have no room, or cannot be reached.
  std::uint64_t allocations_lost = 0;  ///< No place had room.
  std::uint64_t chunks_spilled = 0;    ///< No room at their intended place.
  std::uint64_t hints = 0;
  std::uint64_t hints_lost = 0;  ///< Of memory that was freed, or that has no place yet.
  double bytes = 0;
  double access_s = 0;  ///< Sum of all access durations.
  double local_s = 0;   ///< Their durations if all memory were in the devices' HBM, unshared.
  double paused_s = 0;  ///< The part of `access_s` in which their devices were stopped at gates.
  /// Sum of all waiting times of accesses, from arrival to begin, while their devices did not
  /// stand; of those that the trace holds back, while they did, too.
  double wait_s = 0;
  std::uint64_t gates = 0;
  Time stall{0};  ///< Summed over gates: from the last device's arrival until the gate opened.
  Time skew{0};   ///< Summed over gates: from the first device's arrival to the last.
  std::uint64_t moves = 0, bytes_moved = 0;
  double move_s = 0;        ///< Sum of the durations that all moves would take with unshared links.
  double move_stall_s = 0;  ///< The part of `move_s` in which the moves would stop all devices.
  std::uint64_t thrashes = 0;  ///< Moves back to where the chunk came from, within the window.
  std::uint64_t moves_wanted = 0, policy_failures = 0, ticks = 0;
  std::uint64_t pace_stops = 0;                         ///< As `ReplayScheduler::Counters`.
  std::uint64_t advances = 0, advances_lost = 0;        ///< As `ReplayScheduler::Counters`.
  std::vector<std::string> places;                      ///< Such as "gpu(0)"; GPUs first.
  std::map<std::string, std::uint64_t> moves_refused;   ///< Per reason.
  std::map<std::string, std::uint64_t> bytes_by_route;  ///< Moved, per "gpu(0)>host(0)".
  std::map<std::string, double> bytes_by_place;         ///< Accessed there, per "gpu(0)".
  std::map<std::string, double> bytes_by_link;          ///< Carried until `end`, per "gpu(0) hbm".
  std::map<std::string, ReplayTenant> tenants;          ///< Per tag.
  std::vector<ReplayDevice> devices;
  std::vector<ReplayRequest> requests;  ///< In the order in which their first tasks ended.
  Time window{0};  ///< Length of each window. An access or a move counts in the one where it ends.
  std::vector<ReplayWindow> windows;
  /// The times and texts of the trace's marks.
  std::vector<std::pair<Time, std::string>> marks;

  double seconds() const { return std::chrono::duration<double>(end - begin).count(); }
  friend bool operator==(const ReplayReport&, const ReplayReport&) = default;
};

/// The complete report; `docs/guide/replay.md` describes the keys. Times are in seconds, or in
/// nanoseconds if the name ends in `_ns`.
boost::json::object to_json(const ReplayReport& report);

}  // namespace vma
