#pragma once

#include "placement/books/chunk_tables.hpp"
#include "placement/planning/planner.hpp"

#include <vma/policy.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace vma {

struct ReplaySchedulerLimits {
  PlannerLimits planner;
  HeatLimits heat;
  int policy_failures_max = 3;  ///< In a row; then `stay_put` takes over, as in the runtime.
};

/// What `Scheduler` is to a runtime, this is to a replay: the same books, policy and planner, told
/// in the same order, in virtual time and without threads. A policy that throws loses its plan. Who
/// carries moves out takes them with `take_ready` and tells their end. Not thread-safe.
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
  /// Averages of use are as of the last call that was given the books or asked the policy.
  Snapshot snapshot() const noexcept { return Snapshot(tables_); }
  /// Of the chunks that lie at each place: `used_bytes` without what is on its way there.
  std::vector<std::uint64_t> resident_bytes() const;
  const MachineCosts& costs() const noexcept { return snapshot().costs(); }
  void set_now(Time now) noexcept {
    now_ = now;
    behind_ = true;
  }

  /// Where new chunks go. The policy is asked with the fastest places of the device that have room,
  /// as `Scheduler::place` asks it; what it does not know stays there.
  std::vector<PlaceId> place(const AllocRequest& request, std::span<const std::uint64_t> chunks);
  /// Of the rows; they are there no more. Requires: no move of theirs has started.
  void remove(ChunkId first, std::size_t chunks);

  /// Kept until the next `drain`.
  void use(ChunkId chunk, PlaceId device, double bytes_read, double bytes_written) {
    uses_.push_back({chunk, device, bytes_read, bytes_written, nullptr});
  }
  bool has_uses() const noexcept { return !uses_.empty(); }
  /// What one GPU did with one chunk since the last time is one use, to the books and the policy.
  void drain();
  void tick();
  /// Plans victims, the policy's and the planner's.
  void press(const Pressure& pressure);

  /// The moves that can begin now: they have begun, and their room is taken. In the order in which
  /// the runtime submits them: that of their plans, but victims last. Of the victims of one place
  /// those that are one migration in the runtime leave together, and the next ones when all of
  /// these have ended; victims of `press` are not held back.
  std::vector<AcceptedMove> take_ready();
  void end(const AcceptedMove& move, bool moved, Time took, Time stall);
  /// Accepted moves that have not ended.
  std::size_t under_way() const noexcept { return planner_.under_way(); }
  bool is_moving(ChunkId chunk) const { return planner_.is_moving(chunk); }

  const Counters& counters() const noexcept { return counters_; }

 private:
  using Notice = std::variant<ChunkId, MoveResult>;  // Of a chunk: it is gone.
  /// An accepted move that has not started.
  struct Waiting {
    AcceptedMove move;
    bool awaited = false;  // The trace waits for the room that it makes.
    /// It makes room for moves of policies only, so these go before it.
    bool goes_last() const noexcept { return move.victim && !awaited; }
  };

  void catch_up();
  template <typename Call>
  bool ask(Call&& call);
  void carry_out(const Plan& plan, bool awaited = false);
  std::vector<MoveNumber> ready() const;
  bool joins(std::span<const AcceptedMove> group, const AcceptedMove& move) const;
  void forget_waiting(MoveNumber number);

  ChunkTables tables_;  // Their time is that of the last look at them.
  Time now_{0};
  bool behind_ = false;  // The books are.
  Planner planner_;
  const int policy_failures_max_;
  std::unique_ptr<Policy> policy_;
  int failures_in_a_row_ = 0;
  std::vector<UseEvent> uses_;
  std::map<MoveNumber, Waiting> waiting_;
  std::map<PlaceId, std::set<MoveNumber>> leaving_;  // Victims that have started and go last.
  std::vector<std::uint64_t> arriving_;              // Bytes on their way, by place.
  std::vector<Notice> notices_;
  Counters counters_;
};

}  // namespace vma
