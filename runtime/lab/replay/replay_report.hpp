#pragma once

#include <vma/snapshot.hpp>

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
  Time busy{0};        ///< Sum over its accesses, from begin to end.
  Time stood{0};       ///< While a gate kept waiting work from beginning.
  double local_s = 0;  ///< Time of its accesses if everything is in its HBM.
  std::vector<double>
      bytes_by_place;  ///< What it accessed, in the order of `ReplayReport::places`.
  friend bool operator==(const ReplayDevice&, const ReplayDevice&) = default;
};

/// Totals of accesses to objects with one tag: a tenant, a kind of data.
struct ReplayTenant {
  std::uint64_t accesses = 0;
  double bytes = 0;
  double access_s = 0;
  double local_s = 0;  ///< Time of the same accesses if everything is in their devices' HBM.
  friend bool operator==(const ReplayTenant&, const ReplayTenant&) = default;
};

/// A time window of the replay.
struct ReplayWindow {
  double bytes = 0;
  double access_s = 0, local_s = 0;
  std::uint64_t bytes_moved = 0;
  /// Bytes of the chunks at each place at its end, in the order of `ReplayReport::places`.
  std::vector<std::uint64_t> resident;
  friend bool operator==(const ReplayWindow&, const ReplayWindow&) = default;
};

/// The outcome of a replay. Times are virtual.
struct ReplayReport {
  Time begin{0};  ///< Of the trace's first event.
  Time end{0};    ///< When the last access ended.
  std::uint64_t events = 0, accesses = 0;
  std::uint64_t accesses_lost = 0;     ///< To objects without room, or that cannot be reached.
  std::uint64_t allocations_lost = 0;  ///< Without room anywhere.
  std::uint64_t chunks_spilled = 0;    ///< Without room at their intended place.
  double bytes = 0;
  double access_s = 0;  ///< Sum over all accesses, from begin to end.
  double local_s = 0;   ///< Their time if everything is in their devices' HBM, unshared.
  double wait_s = 0;    ///< Sum over all accesses, from when they could begin until they did.
  Time stall{0};        ///< Sum over all moves, from the last device's arrival on.
  Time skew{0};         ///< Sum over all moves, from the first arrival to the last.
  std::uint64_t moves = 0, bytes_moved = 0;
  double move_s = 0;           ///< Sum over all moves of what each takes with all links to itself.
  std::uint64_t thrashes = 0;  ///< Moves back to where a chunk came from within the window.
  std::uint64_t moves_wanted = 0, policy_failures = 0, ticks = 0;
  std::vector<std::string> places;                      ///< "gpu(0)": GPUs first.
  std::map<std::string, std::uint64_t> moves_refused;   ///< By reason.
  std::map<std::string, std::uint64_t> bytes_by_route;  ///< "gpu(0)>host(0)": moved.
  std::map<std::string, double> bytes_by_place;         ///< "gpu(0)": accessed there.
  std::map<std::string, double> bytes_by_link;          ///< "gpu(0) hbm": carried until `end`.
  std::map<std::string, ReplayTenant> tenants;          ///< By tag.
  std::vector<ReplayDevice> devices;
  Time window{0};  ///< Length of each of these; what ends in one counts there entirely.
  std::vector<ReplayWindow> windows;
  /// Phases of the trace, by their marks.
  std::vector<std::pair<Time, std::string>> marks;

  double seconds() const { return std::chrono::duration<double>(end - begin).count(); }
  friend bool operator==(const ReplayReport&, const ReplayReport&) = default;
};

}  // namespace vma
