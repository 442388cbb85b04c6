#pragma once

#include "placement/planning/planner_limits.hpp"
#include "placement/planning/rejection.hpp"

#include <vma/snapshot.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>

namespace vma {

/// Fills at a steady rate up to a most. What is larger than the most is let through when it is
/// full, and leaves a debt: otherwise it would wait for ever.
class TokenBucket {
 public:
  /// Requires: the same limits at each call but for changes, and a time that only rises.
  void fill(Time now, double per_second, double most);
  bool holds(double tokens, double most) const { return level_ >= (tokens < most ? tokens : most); }
  void take(double tokens) { level_ -= tokens; }
  double level() const noexcept { return level_; }

 private:
  double level_ = 0;
  Time filled_{0};
  bool fresh_ = true;  ///< A bucket starts full.
};

/// What moves may take of routes and of programs' time. A plan spends from a copy, which becomes
/// the budget when the plan is accepted.
class MoveBudgets {
 public:
  struct Leg {
    PlaceId from{}, to{};
    std::uint64_t bytes = 0;
  };
  /// Nothing if all of them may be made, together: what is larger than the most of a budget as a
  /// whole is let through when that is full.
  std::optional<Refusal> refuse(std::span<const Leg> legs, const Snapshot& snapshot,
                                const PlannerLimits& limits);
  std::optional<Refusal> refuse(PlaceId from, PlaceId to, std::uint64_t bytes,
                                const Snapshot& snapshot, const PlannerLimits& limits) {
    const Leg leg{from, to, bytes};
    return refuse({&leg, 1}, snapshot, limits);
  }
  void spend(PlaceId from, PlaceId to, std::uint64_t bytes, const Snapshot& snapshot,
             const PlannerLimits& limits);
  void ended(PlaceId from, PlaceId to, std::uint64_t bytes);

 private:
  struct Route {
    TokenBucket bytes;
    std::uint64_t under_way_bytes = 0;
  };
  static std::optional<Refusal> refuse_route(Route& route, std::uint64_t bytes,
                                             const Snapshot& snapshot, const PlannerLimits& limits);
  std::map<std::pair<PlaceId, PlaceId>, Route> routes_;
  TokenBucket stall_;
};

}  // namespace vma
