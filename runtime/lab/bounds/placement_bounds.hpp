#pragma once

#include "lab/bounds/instance_builder.hpp"
#include "lab/bounds/loops/hindsight.hpp"
#include "lab/bounds/placement_instance.hpp"
#include "lab/replay/replay.hpp"
#include "lab/replay/replay_machine.hpp"
#include "lab/trace/trace_source.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vma {

/// A lower bound for the cost of any policy, and the cost of a plan with full knowledge of the
/// trace, both in seconds.
struct Bound {
  double lower_bound_s = 0;
  std::optional<double> plan_s;  ///< Not set: no plan within the capacities was found.
  std::string kind;              ///< "exact", "lagrangian", "event"; "loops" for closed loops.
  std::optional<double> gap;     ///< (plan - bound) / bound.
  /// The metric of a replay that is bounded: "access_move_s", or for closed loops "seconds".
  std::string metric = "access_move_s";
  /// Closed loops: the placement of `hindsight_homes`. Whoever replays it sets `plan_s`.
  ObjectHomes homes = {};
};

/// The bounds and plans for one instance.
struct PlacementBounds {
  /// One bound or plan. Members are unset if the instance is too large, or if none was found.
  struct Row {
    std::string name;
    std::optional<double> bound_s, plan_s;
    bool for_all = true;  ///< The bound holds for all policies, not only for plans of this kind.
  };
  std::vector<Row> rows;
  double floor_s = 0;  ///< The cost of all uses at their best places.
  std::size_t chunks = 0, uses = 0, blocks = 0, epochs = 0;

  /// The highest bound for all policies (the first of equals), and the cheapest plan.
  Bound best() const;
};

/// Limits for work and memory. With the defaults, computing all bounds takes at most a minute.
struct BoundLimits {
  std::size_t rounds_max = 60;  ///< Per search for prices.
  double work_max = 8e9;        ///< For all rounds; the unit is one cell of one block of a chunk.
  std::size_t epochs_max = 256;
  std::size_t plan_cells_max = 16'000'000;  ///< Chunks x epochs x places.
};

PlacementBounds placement_bounds(const PlacementInstance& instance, const BoundLimits& limits = {});

/// (plan - bound) / bound; nothing without a plan, or if the bound is 0.
std::optional<double> gap_of(double bound_s, std::optional<double> plan_s);

/// The instance of a trace, routed and split as in a `Replay` with these options. Throws as
/// `InstanceBuilder`.
PlacementInstance trace_instance(TraceSource& source, const ReplayMachine& machine,
                                 const std::string& router, const ReplayOptions& options);
/// The best bound of an open loop: holds for the cost of any lossless replay with the same
/// arguments.
Bound find_bound(TraceSource& source, const ReplayMachine& machine, const std::string& router,
                 const ReplayOptions& options);
/// The bound of a trace with declared tasks, for the time of any such replay in which no request
/// gave its memory up. Throws: as
/// `LoopGraphBuilder`.
Bound find_loop_bound(TraceSource& source, const ReplayMachine& machine, const std::string& router,
                      const ReplayOptions& options);

}  // namespace vma
