#include "lab/bounds/placement_bounds.hpp"

#include "lab/bounds/best_static.hpp"
#include "lab/bounds/capacity_prices.hpp"
#include "lab/bounds/cheapest_paths.hpp"
#include "lab/bounds/exact_optimum.hpp"
#include "lab/bounds/loops/hindsight.hpp"
#include "lab/bounds/loops/loop_bound.hpp"
#include "lab/bounds/loops/loop_graph.hpp"
#include "lab/bounds/plan_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace vma {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
/// Sums of many costs are inexact: bounds are lowered by this share to remain valid.
constexpr double rounding = 1e-9;

std::optional<double> if_finite(double seconds) {
  return std::isfinite(seconds) ? std::optional(seconds) : std::nullopt;
}

/// Number of places that a plan has to choose.
std::size_t plan_size(const PlacementInstance& instance, const EpochGrid& grid) {
  std::size_t size = 0;
  for (const PlacementChunk& chunk : instance.chunks) size += grid.life(instance, chunk);
  return size;
}

/// As many epochs as the limits allow.
EpochGrid choose_grid(const PlacementInstance& instance, const BoundLimits& limits) {
  for (std::uint32_t blocks = 1;; blocks *= 2) {
    const EpochGrid grid(instance, blocks);
    if (grid.epochs <= 1) return grid;
    if (grid.epochs > limits.epochs_max) continue;
    if (plan_size(instance, grid) * instance.place_count() <= limits.plan_cells_max) return grid;
  }
}

/// Computes the bounds and plans of one instance; earlier results improve later ones.
class Gathering {
 public:
  Gathering(const PlacementInstance& instance, const BoundLimits& limits)
      : instance_(instance),
        limits_(limits),
        grid_(choose_grid(instance, limits)),
        plans_(!instance.begins_anew &&
               plan_size(instance, grid_) * instance.place_count() <= limits.plan_cells_max) {}

  PlacementBounds run() {
    bounds_.floor_s = instance_.floor_s;
    bounds_.chunks = instance_.chunks.size();
    bounds_.uses = instance_.uses.size();
    bounds_.blocks = instance_.blocks;
    bounds_.epochs = grid_.epochs;
    if (const auto exact = ExactOptimum()(instance_)) add({"exact", exact, {}, true});
    CheapestPaths paths(instance_, grid_);
    std::vector<double> used;
    const double event =
        paths(std::vector<double>(grid_.epochs * instance_.place_count(), 0), used);
    add({"event", event, {}, true});
    if (plans_) add({"furthest next use", {}, plan_by_next_use(instance_, grid_).seconds()});
    find_static();
    find_prices(paths);
    return std::move(bounds_);
  }

 private:
  void add(PlacementBounds::Row row) {
    if (row.plan_s) plan_s_ = std::min(plan_s_, *row.plan_s);
    if (row.plan_s) row.plan_s = if_finite(*row.plan_s);
    if (row.bound_s) *row.bound_s *= 1 - rounding;
    bounds_.rows.push_back(std::move(row));
  }
  /// Number of rounds, limited so that all of them together stay within `work_max`.
  std::size_t rounds(double work, std::size_t most) const {
    const double affordable = limits_.work_max / std::max(work, 1.0);
    return static_cast<std::size_t>(std::clamp(affordable, 1.0, static_cast<double>(most)));
  }
  void find_static() {
    BestStatic placement(instance_, grid_);
    const double places = static_cast<double>(instance_.place_count());
    const double work =
        places * static_cast<double>(instance_.uses.size() + instance_.chunks.size());
    double plan = infinite;
    const std::vector<double> none(grid_.epochs * instance_.place_count(), 0);
    if (plans_) plan = placement.plan(none).seconds();
    const PricedBound bound = placement.bound(plan, rounds(work, 4 * limits_.rounds_max));
    if (plans_) plan = std::min(plan, placement.plan(bound.prices).seconds());
    add({"best static", if_finite(bound.seconds), plan, false});
  }
  void find_prices(CheapestPaths& paths) {
    const double places = static_cast<double>(instance_.place_count());
    const double cells = places * places;
    // A round visits the blocks that the uses require, and the ends of epochs.
    const double ends = static_cast<double>(instance_.chunks.size()) +
                        static_cast<double>(plan_size(instance_, grid_));
    const double work = cells * (static_cast<double>(paths.blocks_done()) + ends);
    const CapacityPrices prices(instance_, grid_);
    const auto answer = [&](std::span<const double> asked, std::vector<double>& used) {
      return paths(asked, used);
    };
    // A better plan gives better steps, and better prices give a better plan.
    const std::size_t half = std::max<std::size_t>(rounds(work, limits_.rounds_max) / 2, 1);
    PricedBound bound = prices.search(answer, plan_s_, half);
    double plan = plan_at(bound.prices);
    bound = prices.search(answer, std::min(plan_s_, plan), half, std::move(bound));
    plan = std::min(plan, plan_at(bound.prices));
    add({"lagrangian", bound.seconds, plan, true});
  }

  double plan_at(std::span<const double> prices) const {
    return plans_ ? plan_at_prices(instance_, grid_, prices).seconds() : infinite;
  }

  const PlacementInstance& instance_;
  const BoundLimits& limits_;
  const EpochGrid grid_;
  const bool plans_;  // Plans are valid for the trace, and fit into memory.
  double plan_s_ = infinite;
  PlacementBounds bounds_;
};

}  // namespace

Bound PlacementBounds::best() const {
  Bound best;
  best.lower_bound_s = -1;
  for (const Row& row : rows) {
    // Ties go to the first row: rounding in another sum must not displace the exact bound.
    if (row.for_all && row.bound_s && *row.bound_s > best.lower_bound_s * (1 + rounding)) {
      best.lower_bound_s = *row.bound_s;
      best.kind = row.name;
    }
    if (row.plan_s && (!best.plan_s || *row.plan_s < *best.plan_s)) best.plan_s = row.plan_s;
  }
  best.gap = gap_of(best.lower_bound_s, best.plan_s);
  return best;
}

std::optional<double> gap_of(double bound_s, std::optional<double> plan_s) {
  if (!plan_s || !(bound_s > 0)) return std::nullopt;
  return (*plan_s - bound_s) / bound_s;
}

PlacementBounds placement_bounds(const PlacementInstance& instance, const BoundLimits& limits) {
  return Gathering(instance, limits).run();
}

PlacementInstance trace_instance(TraceSource& source, const ReplayMachine& machine,
                                 const std::string& router, const ReplayOptions& options) {
  InstanceOptions cut;
  cut.chunk_bytes = options.chunk_bytes;
  cut.late_max = options.queue_max;
  return InstanceBuilder(machine, cut, make_router(router)).build(source);
}

Bound find_bound(TraceSource& source, const ReplayMachine& machine, const std::string& router,
                 const ReplayOptions& options) {
  return placement_bounds(trace_instance(source, machine, router, options)).best();
}

Bound find_loop_bound(TraceSource& source, const ReplayMachine& machine, const std::string& router,
                      const ReplayOptions& options) {
  const LoopGraph graph = LoopGraphBuilder(machine, options, make_router(router)).build(source);
  Bound bound;
  bound.lower_bound_s = LoopBound(graph, machine, {}).search() * (1 - rounding);
  bound.kind = "loops";
  bound.metric = "seconds";
  bound.homes = hindsight_homes(graph, machine);
  return bound;
}

}  // namespace vma
