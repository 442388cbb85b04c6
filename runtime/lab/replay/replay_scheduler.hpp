#pragma once

#include "placement/deciding/decision_path.hpp"
#include "placement/deciding/policy_failures.hpp"

#include <vma/policy.hpp>

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace vma {

struct ReplaySchedulerLimits {
  PlannerLimits planner;
  HeatLimits heat;
  PolicyFailureLimits failures;
  PaceLimits pace;
  /// Whether what a policy throws is passed on; else, and if this is empty, it is counted.
  std::function<bool(const std::exception&)> ends_it;
};

/// The counterpart of `Scheduler` in a replay: the same decision path, in virtual time and without
/// threads. If a policy throws, its plan is dropped, unless the limits say otherwise. The caller
/// takes moves with `take_ready`, carries them out, and reports their end. Not thread-safe.
class ReplayScheduler {
 public:
  struct Counters {
    std::uint64_t collections = 0, ticks = 0, policy_failures = 0;
    std::uint64_t moves_wanted = 0, moves_accepted = 0, moves_dropped = 0;
    std::map<std::string, std::uint64_t> moves_refused;  ///< Per reason of the planner.
    /// Plans that spent the stall budget of later, and how many of them did not pay.
    std::uint64_t advances = 0, advances_lost = 0;
    std::uint64_t pace_stops = 0;  ///< How often moves were stopped by the program's pace.
  };

  ReplayScheduler(std::vector<PlaceState> places, MachineCosts costs,
                  const ReplaySchedulerLimits& limits, std::unique_ptr<Policy> policy);

  ChunkTables& tables();
  /// Its averages of use date from the last call that updated the books or asked the policy.
  Snapshot snapshot() const noexcept { return path_.snapshot(); }
  /// Bytes of the chunks at each place: `used_bytes` without chunks on their way there.
  std::vector<std::uint64_t> resident_bytes() const;
  const MachineCosts& costs() const noexcept { return snapshot().costs(); }
  void set_now(Time now) noexcept {
    now_ = now;
    behind_ = true;
  }

  /// Returns the places for new chunks. The policy starts from the fastest places for the device
  /// that have room, as in `Scheduler::place`.
  std::vector<PlaceId> place(const AllocRequest& request, std::span<const std::uint64_t> chunks);
  /// Removes the chunks' rows. Requires: none of their moves has started.
  void remove(ChunkId first, std::size_t chunks);

  /// Whether uses matter: to the policy or, once a place may lack room, to the choice of victims.
  bool wants_uses() const noexcept { return wants_uses_; }
  /// A place may lack room: from now on, uses matter.
  void want_uses() noexcept { wants_uses_ = true; }
  /// Queues a use for the next `collect`.
  void use(ChunkId chunk, PlaceId device, double bytes_read, double bytes_written) {
    reports_.uses.push_back({chunk, device, bytes_read, bytes_written, nullptr});
  }
  /// Queues a hint about the chunk, which is given now for a use by `device`.
  void hint(ChunkId chunk, PlaceId device, const Hint& hint) {
    hints_.push_back({chunk, device, hint, now_});
  }
  bool has_uses() const noexcept { return !reports_.uses.empty(); }
  bool has_hints() const noexcept { return !hints_.empty(); }
  /// Combines all uses of one chunk by one GPU since the last call into one, and passes it to the
  /// books and the policy; and then the hints since the last call.
  void collect();
  /// Looks how the program gets on, and gives waiting moves up once moving does not pay.
  void watch_pace(std::uint64_t progress);
  void tick();
  /// Plans victims, chosen by the policy and the planner.
  void press(const Pressure& pressure);

  /// Starts the moves that can begin now, and reserves their room. Returns them in the order of
  /// `DecisionPath::take`.
  std::vector<AcceptedMove> take_ready();
  void end(const AcceptedMove& move, bool moved, Time took, Time stall);
  /// How far gates may overdraw the stall budget now.
  Time stall_credit() const { return path_.stall_credit(); }
  /// Number of accepted moves that have not ended.
  std::size_t under_way() const noexcept { return path_.planner().under_way(); }
  bool is_moving(ChunkId chunk) const { return path_.planner().is_moving(chunk); }

  const Counters& counters() const noexcept { return counters_; }

 private:
  void catch_up();
  template <typename Call>
  bool ask(PolicyEntry entry, const Call& call, Plan& plan);
  void carry_out(const Plan& plan, bool awaited = false);

  DecisionPath path_;  // Its books were last updated at the time that they show.
  Time now_{0};
  bool behind_ = false;  // The books have not been updated to `now_`.
  std::unique_ptr<Policy> policy_;
  bool wants_uses_;
  PolicyFailures failures_;
  const std::function<bool(const std::exception&)> ends_it_;
  /// A hint that the next `collect` reports.
  struct Queued {
    ChunkId chunk{};
    PlaceId device{};
    Hint hint;
    Time given{0};
  };
  UseReports reports_;  // Its hints are `hints_` until it collects.
  std::vector<Queued> hints_;
  std::vector<std::uint64_t> arriving_;  // Bytes on their way, indexed by place.
  Counters counters_;
};

}  // namespace vma
