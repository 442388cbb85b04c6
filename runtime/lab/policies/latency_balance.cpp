#include "lab/policies/lab_policies.hpp"

#include "base/units.hpp"
#include "placement/weighing/chunk_worth.hpp"
#include "placement/weighing/room_for_chunks.hpp"

#include <algorithm>
#include <cmath>

namespace vma::inline v1 {
namespace {

constexpr double utilisation_most = 0.99;
// Share of the way to a bound at which the latencies were measured.
constexpr double refuted_share = 0.95;

/// Rule: for each GPU and each other place that it uses, p is the share of its traffic to the two
/// that goes to its own HBM. If the loaded latency of its HBM is lower than that of the other
/// place, p must grow, otherwise shrink: a bisection between the p known to be too low and the one
/// known to be too high. Chunks whose traffic fits the step to the middle move (the first may go on
/// towards the far bound, but not past it), those with the most traffic first, within a budget of
/// bytes for each route. Nothing moves while the latencies differ by less than `delta` of the
/// HBM's. Once the bounds are `epsilon` apart and the latencies still differ, the far bound is
/// forgotten, since the load has changed. Traffic leaves the HBM only for the best of the other
/// places.
///
/// The loaded latency is the idle one / (1 - utilisation), as for a queue; utilisation is the GPU's
/// demand on the place divided by its rate to there, or that of all GPUs divided by the best rate
/// of any, whichever is more, and at most 0.99. Colloid measures it by Little's law; here requests
/// in flight are not counted.
///
/// From: M. Vuppalapati, R. Agarwal, "Tiered Memory Management: Access Latency is the Key!"
/// (Colloid), SOSP 2024.
class LatencyBalance : public Policy {
 public:
  explicit LatencyBalance(const PolicyValues& values)
      : delta_(values["delta"]), epsilon_(values["epsilon"]), budget_(values["route_share"], 1) {}

  void on_tick(const Snapshot& snapshot, Plan& plan) override;

 private:
  struct Search {
    double low = 0, high = 1;  // Of p: too little at own up to `low`, too much from `high` on.
  };
  struct Used {
    ChunkId chunk{};
    double demand = 0;  // Of the GPU that uses it most.
  };
  struct Pair {
    PlaceId own{}, other{};
    double home_latency = 0, other_latency = 0;  // Loaded, in seconds.
  };
  void collect(const Snapshot& snapshot);
  void step(const Snapshot& snapshot, const Pair& pair, Room& room, Plan& plan);
  void shift(const Snapshot& snapshot, const Pair& pair, double step, double far, Room& room,
             Plan& plan);

  const double delta_, epsilon_;
  RouteBudget budget_;
  std::vector<Search> searches_;         // By GPU and place.
  std::vector<std::vector<Used>> used_;  // By GPU: what changed and it uses most, hottest first.
};

double loaded_latency(const Snapshot& snapshot, PlaceId device, PlaceId at) {
  const MachineCosts& costs = snapshot.costs();
  double best_rate = 0;
  for (std::size_t i = 0; i < costs.gpus(); ++i) {
    best_rate = std::max(best_rate, costs.access_rate(PlaceId{static_cast<std::uint8_t>(i)}, at));
  }
  const double own = snapshot.demand(device, at) / costs.access_rate(device, at);
  const double all = snapshot.place(at).demand_bytes_s / best_rate;
  const double utilisation = std::clamp(std::max(own, all), 0.0, utilisation_most);
  return in_seconds(costs.access_latency(device, at)) / (1 - utilisation);
}

void LatencyBalance::collect(const Snapshot& snapshot) {
  used_.assign(snapshot.costs().gpus(), {});
  for (const ChunkId chunk : snapshot.changed()) {
    if (!may_move(snapshot.chunk(chunk))) continue;
    if (const auto user = main_user(snapshot, chunk))
      used_[index(user->device)].push_back({chunk, user->heat.short_term()});
  }
  for (std::vector<Used>& used : used_) {
    std::ranges::sort(used, [](const Used& left, const Used& right) {
      return left.demand != right.demand ? left.demand > right.demand : left.chunk < right.chunk;
    });
  }
}

/// Moves chunks with `step` bytes per second of traffic to the faster of the two; the first may
/// have up to `far`.
void LatencyBalance::shift(const Snapshot& snapshot, const Pair& pair, double step, double far,
                           Room& room, Plan& plan) {
  const bool to_own = pair.home_latency < pair.other_latency;
  const PlaceId from = to_own ? pair.other : pair.own, to = to_own ? pair.own : pair.other;
  const double slow = std::max(pair.home_latency, pair.other_latency);
  const double fast = std::min(pair.home_latency, pair.other_latency);
  double left = far;
  for (const Used& used : used_[index(pair.own)]) {
    const ChunkRow& row = snapshot.chunk(used.chunk);
    if (row.at != from || used.demand > left || !room.holds(to, row.bytes)) continue;
    if (!budget_.left(from, to) || !can_lie(snapshot, used.chunk, to)) continue;
    left = std::min(left, step) - used.demand;
    budget_.take(from, to, row.bytes);
    room.move(from, to, row.bytes);
    // Of the time of one second of its use, the share by which the latency is lower there.
    const double value =
        used.demand / snapshot.costs().access_rate(pair.own, from) * (1 - fast / slow);
    plan.move(used.chunk, to, value,
              name_of(snapshot, pair.own) + " asks for " + rate_text(used.demand) + " and waits " +
                  time_text(slow) + " at " + name_of(snapshot, from) + ", " + time_text(fast) +
                  " at " + name_of(snapshot, to));
    if (left <= 0) return;
  }
}

void LatencyBalance::step(const Snapshot& snapshot, const Pair& pair, Room& room, Plan& plan) {
  const double at_own = snapshot.demand(pair.own, pair.own);
  const double both = at_own + snapshot.demand(pair.own, pair.other);
  if (both <= 0) return;
  if (std::abs(pair.home_latency - pair.other_latency) < delta_ * pair.home_latency) return;
  const bool to_own = pair.home_latency < pair.other_latency;
  const double p = at_own / both;
  Search& search = searches_[index(pair.own) * snapshot.places().size() + index(pair.other)];
  (to_own ? search.low : search.high) = p;
  if (search.high - search.low < epsilon_) (to_own ? search.high : search.low) = to_own ? 1 : 0;
  const double middle = (search.low + search.high) / 2;
  const double bound = to_own ? search.high : search.low;
  const bool refuted = bound > 0 && bound < 1;
  shift(snapshot, pair, std::abs(middle - p) * both,
        std::abs(bound - p) * both * (refuted ? refuted_share : 1.0001), room, plan);
}

void LatencyBalance::on_tick(const Snapshot& snapshot, Plan& plan) {
  const MachineCosts& costs = snapshot.costs();
  searches_.resize(costs.gpus() * costs.places());
  budget_.refill(costs, snapshot.now());
  collect(snapshot);
  Room room(snapshot);
  for (std::size_t gpu = 0; gpu < costs.gpus(); ++gpu) {
    const PlaceId own{static_cast<std::uint8_t>(gpu)};
    if (used_[gpu].empty()) continue;
    std::vector<Pair> pairs;
    for (const PlaceId other : costs.by_speed(own)) {
      if (other == own) continue;
      pairs.push_back(
          {own, other, loaded_latency(snapshot, own, own), loaded_latency(snapshot, own, other)});
    }
    const auto best = std::ranges::min_element(pairs, {}, &Pair::other_latency);
    for (auto pair = pairs.begin(); pair != pairs.end(); ++pair) {
      const bool to_own = pair->home_latency < pair->other_latency;
      if (to_own || pair == best) step(snapshot, *pair, room, plan);
    }
  }
}

}  // namespace

PolicyKind latency_balance_kind() {
  using Type = PolicyParameter::Type;
  return {"latency_balance",
          "Colloid, SOSP 2024",
          {{"delta", Type::number, 0.05, 0, 1,
            "nothing moves while latencies differ by less than this fraction"},
           {"epsilon", Type::number, 0.01, 0, 1,
            "when the bounds of the traffic share are this close, the search restarts"},
           {"route_share", Type::number, 0.5, 0.01, 1,
            "fraction of a route's copy rate that moves may use"}},
          [](const PolicyValues& values) -> std::unique_ptr<Policy> {
            return std::make_unique<LatencyBalance>(values);
          }};
}

}  // namespace vma::inline v1
