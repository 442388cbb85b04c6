#include "placement/planning/proposal_checks.hpp"

#include "base/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace vma {
namespace {

/// Checks the move's own members.
std::optional<MoveRefusal> refuse_words(const Move& move, const Snapshot& snapshot) {
  if (index(move.chunk) >= snapshot.chunks().size() || snapshot.chunk(move.chunk).bytes == 0) {
    return MoveRefusal{MoveRefusal::unknown_chunk,
                       fmt::format("there is no chunk {}", index(move.chunk))};
  }
  if (index(move.to) >= snapshot.places().size()) {
    return MoveRefusal{
        MoveRefusal::unknown_place,
        fmt::format("{} is not one of the {} places", index(move.to), snapshot.places().size())};
  }
  if (snapshot.chunk(move.chunk).at == move.to) {
    return MoveRefusal{
        MoveRefusal::same_place,
        fmt::format("it already lies at {}", to_string(snapshot.place(move.to).place))};
  }
  if (move.reason.empty()) return MoveRefusal{MoveRefusal::no_reason, "its policy gives no reason"};
  if (!std::isfinite(move.value) || move.value < 0) {
    return MoveRefusal{MoveRefusal::bad_value, fmt::format("its value is {}", move.value)};
  }
  return std::nullopt;
}

std::optional<MoveRefusal> refuse_state(ChunkId chunk, const Snapshot& snapshot,
                                        const MovesUnderWay& under_way) {
  const ChunkRow& row = snapshot.chunk(chunk);
  if (row.parked || row.dropped) {
    return MoveRefusal{MoveRefusal::parked, fmt::format("'{}' is parked", snapshot.tag(chunk))};
  }
  if (!row.movable) return MoveRefusal{MoveRefusal::pinned, "it is pinned or not movable"};
  if (row.moving || under_way.is_moving(chunk)) {
    return MoveRefusal{MoveRefusal::already_moving,
                       "a move of it or its allocation is in progress"};
  }
  if (!row.in_scope) {
    return MoveRefusal{MoveRefusal::not_in_scope,
                       "no attached stream uses it, and the driver holds no context"};
  }
  return std::nullopt;
}

std::optional<MoveRefusal> refuse_haste(ChunkId chunk, const Snapshot& snapshot,
                                        const MoveHistory& history, const PlannerLimits& limits) {
  const ChunkRow& row = snapshot.chunk(chunk);
  const Time held_until = history.held_until(chunk);
  if (held_until > snapshot.now()) {
    return MoveRefusal{MoveRefusal::thrashing,
                       fmt::format("it thrashed; blocked for {:.3f} s more",
                                   in_seconds(held_until - snapshot.now()))};
  }
  const Time residence = snapshot.now() - row.last_move;
  if (row.last_move > Time::zero() && residence < limits.least_residence) {
    return MoveRefusal{MoveRefusal::cooldown,
                       fmt::format("it moved {:.3f} s ago", in_seconds(residence))};
  }
  return std::nullopt;
}

}  // namespace

bool can_lie_at(ChunkId chunk, PlaceId to, const Snapshot& snapshot) {
  const MachineCosts& costs = snapshot.costs();
  if (!(costs.copy_rate(snapshot.chunk(chunk).at, to) > 0)) return false;
  if (!snapshot.may_lie(chunk, to)) return false;
  bool all = true;
  snapshot.for_each_user(
      chunk, [&](PlaceId device, const Heat&) { all = all && costs.reaches(device, to); });
  return all;
}

double use_per_byte(ChunkId chunk, const Snapshot& snapshot) {
  const Heat heat = snapshot.total_heat(chunk);
  const double bytes = static_cast<double>(snapshot.chunk(chunk).bytes);
  double use = std::max(heat.short_term(), heat.long_term()) / bytes;
  const Hint* hint = snapshot.hint(chunk);
  // The use that a past hint announced has become heat, or did not happen.
  if (hint != nullptr && hint->next_use && *hint->next_use >= snapshot.now() &&
      std::isfinite(hint->passes)) {
    const double ahead = std::max(1.0, in_seconds(*hint->next_use - snapshot.now()));
    use = std::max(use, hint->passes / ahead);
  }
  return use;
}

std::optional<MoveRefusal> refuse_chunk(ChunkId chunk, const Snapshot& snapshot,
                                        const MovesUnderWay& under_way, const MoveHistory& history,
                                        const PlannerLimits& limits) {
  if (auto refusal = refuse_state(chunk, snapshot, under_way)) return refusal;
  return refuse_haste(chunk, snapshot, history, limits);
}

std::optional<MoveRefusal> refuse_move(const Move& move, const Snapshot& snapshot,
                                       const MovesUnderWay& under_way, const MoveHistory& history,
                                       const PlannerLimits& limits) {
  if (auto refusal = refuse_words(move, snapshot)) return refusal;
  if (auto refusal = refuse_chunk(move.chunk, snapshot, under_way, history, limits)) return refusal;
  if (can_lie_at(move.chunk, move.to, snapshot)) return std::nullopt;
  return MoveRefusal{MoveRefusal::unreachable,
                     fmt::format("there is no path to {}, or a GPU that may use it cannot reach it",
                                 to_string(snapshot.place(move.to).place))};
}

std::vector<PlaceId> places_for(ChunkId chunk, PlaceId otherwise, const Snapshot& snapshot) {
  const MachineCosts& costs = snapshot.costs();
  PlaceId device = otherwise;
  double most = -1;
  snapshot.for_each_user(chunk, [&](PlaceId user, const Heat& heat) {
    const bool hotter = heat.short_term() > most || (heat.short_term() == most && user < device);
    if (!hotter) return;
    most = heat.short_term();
    device = user;
  });
  if (index(device) < costs.gpus()) {
    const std::span<const PlaceId> ranked = costs.by_speed(device);
    return {ranked.begin(), ranked.end()};
  }
  std::vector<PlaceId> all;
  for (std::size_t at = 0; at < costs.places(); ++at)
    all.push_back(PlaceId{static_cast<std::uint8_t>(at)});
  return all;
}

std::vector<PlaceId> third_places(const Proposal& proposal, const Snapshot& snapshot,
                                  MoveBudgets& budgets, const PlannerLimits& limits) {
  const auto affordable = [&](PlaceId from, PlaceId to) {
    return !budgets.refuse(from, to, proposal.bytes, snapshot, limits);
  };
  std::vector<PlaceId> thirds;
  const bool to_gpu = index(proposal.to) < snapshot.costs().gpus();
  for (const PlaceId at :
       places_for(proposal.chunk, to_gpu ? proposal.to : proposal.from, snapshot)) {
    if (at == proposal.from || at == proposal.to) continue;
    if (!can_lie_at(proposal.chunk, at, snapshot)) continue;
    if (!(snapshot.costs().copy_rate(at, proposal.to) > 0)) continue;
    if (affordable(proposal.from, at) && affordable(at, proposal.to)) thirds.push_back(at);
  }
  return thirds;
}

}  // namespace vma
