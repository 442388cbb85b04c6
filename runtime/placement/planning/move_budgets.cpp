#include "placement/planning/move_budgets.hpp"

#include "base/check.hpp"
#include "base/printable.hpp"
#include "base/units.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vma {
void TokenBucket::fill(Time now, double per_second, double most) {
  if (fresh_) level_ = most;
  fresh_ = false;
  if (now > filled_) level_ += in_seconds(now - filled_) * per_second;
  level_ = std::min(level_, most);
  filled_ = std::max(filled_, now);
}

std::optional<MoveRefusal> MoveBudgets::refuse_route(Route& route, std::uint64_t bytes,
                                                     const Snapshot& snapshot,
                                                     const PlannerLimits& limits) {
  if (limits.route_under_way_bytes > 0 && route.under_way_bytes > 0 &&
      route.under_way_bytes + bytes > limits.route_under_way_bytes) {
    return MoveRefusal{
        MoveRefusal::route_budget,
        fmt::format("{} are moving on its route; the limit is {}",
                    bytes_text(route.under_way_bytes), bytes_text(limits.route_under_way_bytes))};
  }
  if (limits.route_bytes_s <= 0) return std::nullopt;
  route.bytes.fill(snapshot.now(), limits.route_bytes_s, limits.route_burst_bytes);
  if (route.bytes.holds(static_cast<double>(bytes), limits.route_burst_bytes)) return std::nullopt;
  return MoveRefusal{MoveRefusal::route_budget,
                     fmt::format("{}; the budget of its route has {} left", bytes_text(bytes),
                                 bytes_text(route.bytes.level()))};
}

std::optional<MoveRefusal> MoveBudgets::refuse(std::span<const Leg> legs, const Snapshot& snapshot,
                                               const PlannerLimits& limits, double credit) {
  std::map<std::pair<PlaceId, PlaceId>, std::uint64_t> bytes;
  for (const Leg& leg : legs) bytes[{leg.from, leg.to}] += leg.bytes;
  for (const auto& [route, sum] : bytes) {
    if (auto refused = refuse_route(routes_[route], sum, snapshot, limits)) return refused;
  }
  if (limits.stall_share <= 0) return std::nullopt;
  const double most = in_seconds(limits.stall_burst);
  const double stall = stall_of(legs, snapshot);
  stall_.fill(snapshot.now(), limits.stall_share, most);
  if (stall_.holds(stall, most) || (credit > 0 && stall_.level() + credit >= stall))
    return std::nullopt;
  return MoveRefusal{
      MoveRefusal::stall_budget,
      fmt::format("it stops programs for {:.1f} us; {:.1f} us of the budget are left", stall * 1e6,
                  stall_.level() * 1e6)};
}

bool MoveBudgets::overdraws(std::span<const Leg> legs, const Snapshot& snapshot,
                            const PlannerLimits& limits) const {
  return limits.stall_share > 0 &&
         !stall_.holds(stall_of(legs, snapshot), in_seconds(limits.stall_burst));
}

double MoveBudgets::stall_of(std::span<const Leg> legs, const Snapshot& snapshot) {
  double stall = 0;
  for (const Leg& leg : legs)
    stall += in_seconds(snapshot.costs().stall_time(leg.from, leg.to, leg.bytes));
  return stall;
}

void MoveBudgets::spend(PlaceId from, PlaceId to, std::uint64_t bytes, const Snapshot& snapshot,
                        const PlannerLimits& limits) {
  Route& route = routes_[{from, to}];
  route.under_way_bytes += bytes;
  // A disabled limit leaves no debt for when it is enabled.
  if (limits.route_bytes_s > 0) {
    route.bytes.fill(snapshot.now(), limits.route_bytes_s, limits.route_burst_bytes);
    route.bytes.take(static_cast<double>(bytes));
  }
  if (limits.stall_share > 0) {
    stall_.fill(snapshot.now(), limits.stall_share, in_seconds(limits.stall_burst));
    stall_.take(in_seconds(snapshot.costs().stall_time(from, to, bytes)));
  }
}

void MoveBudgets::ended(PlaceId from, PlaceId to, std::uint64_t bytes) {
  Route& route = routes_[{from, to}];
  VMART_CHECK(route.under_way_bytes >= bytes, "only a move in progress ends");
  route.under_way_bytes -= bytes;
}

}  // namespace vma
