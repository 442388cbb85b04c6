#pragma once

#include "placement/deciding/decision_path.hpp"
#include "support/reaction/gate_mover.hpp"
#include "support/reaction/lockstep_program.hpp"

#include <vma/policy.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vma {

struct ReactionOptions {
  LockstepLoad load;
  std::vector<PlaceState> places;
  MachineCosts costs{0, 0};
  std::vector<PlaceId> homes;  ///< Of the blocks, at the beginning.
  PlannerLimits planner;
  HeatLimits heat;
  GateModel gates;
  Time stall_budget = std::chrono::milliseconds(60);  ///< Of the migrator, per second.
  Time drain = std::chrono::milliseconds(1), tick = std::chrono::milliseconds(10);
  bool dry_run = false;  ///< Everything but the moves.
};

/// What happened from `begin` until the next phase; `Time::max()`: never.
struct ReactionPhase {
  Time begin{0};
  Time used = Time::max();                        ///< The first use is in the books.
  Time proposed = Time::max();                    ///< The policy proposed a move.
  Time accepted = Time::max(), accepted_last{0};  ///< The planner accepted one.
  Time started = Time::max();                     ///< The migrator got one.
  Time ended{0};                                  ///< The last move has ended.
  std::size_t proposals = 0, moves = 0, groups = 0, gates = 0;
  Time stopped{0};  ///< How long GPUs were stopped at gates, from the first one on.
  std::size_t advances = 0, advances_paid = 0, advances_lost = 0;
  std::map<std::string, std::size_t> refused;
};

/// From changed uses to moved memory, in virtual time and without threads: a program in lockstep, a
/// policy behind the `DecisionPath` of the runtime, and a model of the migrator.
class ReactionRun {
 public:
  ReactionRun(ReactionOptions options, std::unique_ptr<Policy> policy);

  /// Continues until `end`.
  void run_until(Time end);

  Time now() const { return now_; }
  const std::vector<ReactionPhase>& phases() const { return phases_; }
  std::size_t moves() const { return moves_; }
  PlaceId home(std::size_t chunk) const;
  const DecisionPath& path() const { return path_; }
  /// Bytes that all GPUs read per second, of the whole steps between two times; 0 without one.
  double rate(Time from, Time to) const;
  /// From `begin` until the rate is and stays at least `least`, in stretches of `stretch`. None:
  /// not before `end`.
  std::optional<Time> recovery(Time begin, Time end, double least, Time stretch) const;

 private:
  Time next() const;
  void serve_gates();
  void drain();
  void tick();
  void ask(DecisionPath::PolicyCall call);
  void accept(const Plan& plan);
  void start_ready();
  void end_moves();
  ReactionPhase& phase();

  const ReactionOptions options_;
  Time now_{0};
  DecisionPath path_;
  std::unique_ptr<Policy> policy_;
  LockstepProgram program_;
  GateMover migrator_;
  std::vector<UseEvent> uses_;
  std::vector<ReactionPhase> phases_;
  std::size_t phase_ = 0, moves_ = 0, gates_before_ = 0;
  Time stopped_before_{0};
  Time next_drain_{0}, next_tick_{0};
  bool stopping_ = false, closed_ = false;
};

}  // namespace vma
