#pragma once

#include "placement/deciding/decision_path.hpp"
#include "placement/deciding/policy_failures.hpp"

#include <vma/policy.hpp>

#include <cstdint>
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
};

/// The counterpart of `Scheduler` in a replay: the same path of decisions, in virtual time and
/// without threads. A policy that throws loses its plan. The caller that carries moves out takes
/// them with `take_ready` and reports their end. Not thread-safe.
class ReplayScheduler {
 public:
  struct Counters {
    std::uint64_t drains = 0, ticks = 0, policy_failures = 0;
    std::uint64_t moves_wanted = 0, moves_accepted = 0, moves_dropped = 0;
    std::map<std::string, std::uint64_t> moves_refused;  ///< By the planner's reason.
  };

  ReplayScheduler(std::vector<PlaceState> places, MachineCosts costs,
                  const ReplaySchedulerLimits& limits, std::unique_ptr<Policy> policy);

  ChunkTables& tables();
  /// Averages of use are as of the last call that updated the books or asked the policy.
  Snapshot snapshot() const noexcept { return path_.snapshot(); }
  /// Of the chunks at each place: `used_bytes` without what is on its way there.
  std::vector<std::uint64_t> resident_bytes() const;
  const MachineCosts& costs() const noexcept { return snapshot().costs(); }
  void set_now(Time now) noexcept {
    now_ = now;
    behind_ = true;
  }

  /// Where new chunks go. The policy is asked with the fastest places of the device that have room
  /// as the default, as in `Scheduler::place`.
  std::vector<PlaceId> place(const AllocRequest& request, std::span<const std::uint64_t> chunks);
  /// Removes the rows. Requires: no move of theirs has started.
  void remove(ChunkId first, std::size_t chunks);

  /// Kept until the next `drain`.
  void use(ChunkId chunk, PlaceId device, double bytes_read, double bytes_written) {
    uses_.push_back({chunk, device, bytes_read, bytes_written, nullptr});
  }
  bool has_uses() const noexcept { return !uses_.empty(); }
  /// All uses of one chunk by one GPU since the last call become one use, for the books and the
  /// policy.
  void drain();
  void tick();
  /// Plans victims, both the policy's and the planner's.
  void press(const Pressure& pressure);

  /// Begins the moves that can begin now, and reserves their room. In the order of
  /// `DecisionPath::take`.
  std::vector<AcceptedMove> take_ready();
  void end(const AcceptedMove& move, bool moved, Time took, Time stall);
  /// Number of accepted moves that have not ended.
  std::size_t under_way() const noexcept { return path_.planner().under_way(); }
  bool is_moving(ChunkId chunk) const { return path_.planner().is_moving(chunk); }

  const Counters& counters() const noexcept { return counters_; }

 private:
  void catch_up();
  bool ask(PolicyEntry entry, DecisionPath::PolicyCall call, Plan& plan);
  void carry_out(const Plan& plan, bool awaited = false);

  DecisionPath path_;  // The time of its books is that of their last update.
  Time now_{0};
  bool behind_ = false;  // The books are not up to date.
  std::unique_ptr<Policy> policy_;
  PolicyFailures failures_;
  std::vector<UseEvent> uses_;
  std::vector<std::uint64_t> arriving_;  // Bytes on their way, by place.
  Counters counters_;
};

}  // namespace vma
