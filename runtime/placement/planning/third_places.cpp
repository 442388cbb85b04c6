#include "placement/planning/third_places.hpp"

#include "placement/planning/proposal_checks.hpp"

namespace vma {

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

std::vector<PlaceId> third_places(const Wish& wish, const Snapshot& snapshot, MoveBudgets& budgets,
                                  const PlannerLimits& limits) {
  const auto affordable = [&](PlaceId from, PlaceId to) {
    return !budgets.refuse(from, to, wish.bytes, snapshot, limits);
  };
  std::vector<PlaceId> thirds;
  const bool to_gpu = index(wish.to) < snapshot.costs().gpus();
  for (const PlaceId at : places_for(wish.chunk, to_gpu ? wish.to : wish.from, snapshot)) {
    if (at == wish.from || at == wish.to) continue;
    if (!can_lie_at(wish.chunk, at, snapshot)) continue;
    if (!(snapshot.costs().copy_rate(at, wish.to) > 0)) continue;
    if (affordable(wish.from, at) && affordable(at, wish.to)) thirds.push_back(at);
  }
  return thirds;
}

}  // namespace vma
