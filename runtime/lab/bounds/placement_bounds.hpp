#pragma once

#include "lab/bounds/instance_builder.hpp"
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

/// A cost in seconds that no policy stays under, and beside it what a plan that knows the whole
/// trace pays.
struct Bound {
  double lower_bound_s = 0;
  std::optional<double> plan_s;  ///< None: no plan was found that keeps to the capacities.
  std::string kind;              ///< "exact", "lagrangian" or "event".
  std::optional<double> gap;     ///< (plan - bound) / bound.
};

/// The bounds and plans for one instance.
struct PlacementBounds {
  /// One of them. None of its parts: too large for it, or not found.
  struct Row {
    std::string name;
    std::optional<double> bound_s, plan_s;
    bool for_all = true;  ///< The bound is one for all policies, not for plans of its kind only.
  };
  std::vector<Row> rows;
  double floor_s = 0;  ///< Each use at its best place.
  std::size_t chunks = 0, uses = 0, blocks = 0, epochs = 0;

  /// The highest of the bounds for all policies, of equals the first, and the cheapest plan.
  Bound best() const;
};

/// How much work and memory a set of bounds may take. The defaults end within a minute.
struct BoundLimits {
  std::size_t rounds_max = 60;  ///< Of a search for prices.
  double work_max = 8e9;        ///< Of all rounds, in cells of a chunk's block.
  std::size_t epochs_max = 256;
  std::size_t plan_cells_max = 16'000'000;  ///< Chunks x epochs x places.
};

PlacementBounds placement_bounds(const PlacementInstance& instance, const BoundLimits& limits = {});

/// (plan - bound) / bound; none where there is no plan, or nothing to divide by.
std::optional<double> gap_of(double bound_s, std::optional<double> plan_s);

/// That of a trace, routed and cut as `Replay` with these options does it. Throws as
/// `InstanceBuilder` does.
PlacementInstance trace_instance(TraceSource& source, const ReplayMachine& machine,
                                 const std::string& router, const ReplayOptions& options);
/// The best of its bounds: holds for the cost of any replay with the same arguments that loses
/// nothing.
Bound find_bound(TraceSource& source, const ReplayMachine& machine, const std::string& router,
                 const ReplayOptions& options);

}  // namespace vma
