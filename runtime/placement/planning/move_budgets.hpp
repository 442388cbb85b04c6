#pragma once

#include "placement/planning/planned_move.hpp"
#include "placement/planning/planner_limits.hpp"

#include <vma/snapshot.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>

namespace vma {

/// Fills at a steady rate up to a maximum. A request larger than the maximum is allowed when the
/// bucket is full, and leaves a debt: otherwise it would wait for ever.
class TokenBucket {
 public:
  /// Requires: the limits are the same at each call unless reconfigured; time only rises.
  void fill(Time now, double per_second, double most);
  bool holds(double tokens, double most) const { return level_ >= (tokens < most ? tokens : most); }
  void take(double tokens) { level_ -= tokens; }
  double level() const noexcept { return level_; }

 private:
  double level_ = 0;
  Time filled_{0};
  bool fresh_ = true;  ///< A bucket starts full.
};

/// What moves may use of routes and of programs' time. A plan spends from a copy, which becomes the
/// budget when the plan is accepted.
class MoveBudgets {
 public:
  struct Leg {
    PlaceId from{}, to{};
    std::uint64_t bytes = 0;
  };
  /// None if all of them may be made together. A request larger than the maximum of a budget is
  /// allowed when the budget is full. `credit`: by how many seconds they may overdraw the budget of
  /// stalls.
  std::optional<MoveRefusal> refuse(std::span<const Leg> legs, const Snapshot& snapshot,
                                    const PlannerLimits& limits, double credit = 0);
  /// Whether these moves would overdraw the budget of stalls. Requires: `refuse` was called for
  /// them.
  bool overdraws(std::span<const Leg> legs, const Snapshot& snapshot,
                 const PlannerLimits& limits) const;
  static double stall_of(std::span<const Leg> legs, const Snapshot& snapshot);
  std::optional<MoveRefusal> refuse(PlaceId from, PlaceId to, std::uint64_t bytes,
                                    const Snapshot& snapshot, const PlannerLimits& limits) {
    const Leg leg{from, to, bytes};
    return refuse({&leg, 1}, snapshot, limits);
  }
  void spend(PlaceId from, PlaceId to, std::uint64_t bytes, const Snapshot& snapshot,
             const PlannerLimits& limits);
  void ended(PlaceId from, PlaceId to, std::uint64_t bytes);
  /// What is left of the budget of stalls, in seconds; negative if it is overdrawn.
  double stall_left() const noexcept { return stall_.level(); }

 private:
  struct Route {
    TokenBucket bytes;
    std::uint64_t under_way_bytes = 0;
  };
  static std::optional<MoveRefusal> refuse_route(Route& route, std::uint64_t bytes,
                                                 const Snapshot& snapshot,
                                                 const PlannerLimits& limits);
  std::map<std::pair<PlaceId, PlaceId>, Route> routes_;
  TokenBucket stall_;
};

}  // namespace vma
