#pragma once

#include "placement/planner_limits.hpp"
#include "placement/rejection.hpp"

#include <vma/snapshot.hpp>

#include <cstdint>
#include <map>
#include <optional>
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
  /// Nothing if the move may be made.
  std::optional<Refusal> refuse(PlaceId from, PlaceId to, std::uint64_t bytes,
                                const Snapshot& snapshot, const PlannerLimits& limits);
  void spend(PlaceId from, PlaceId to, std::uint64_t bytes, const Snapshot& snapshot,
             const PlannerLimits& limits);
  void ended(PlaceId from, PlaceId to, std::uint64_t bytes);

 private:
  struct Route {
    TokenBucket bytes;
    std::uint64_t under_way_bytes = 0;
  };
  std::map<std::pair<PlaceId, PlaceId>, Route> routes_;
  TokenBucket stall_;
};

}  // namespace vma
