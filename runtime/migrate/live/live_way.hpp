#pragma once

#include "machine/topology.hpp"
#include "migrate/gates/gate_plan.hpp"

#include <vma/migration.hpp>

#include <functional>
#include <string>

namespace vma {

/// How one chunk crosses while its application runs.
enum class Way {
  live,      ///< Copied beside the application; what it wrote since is copied again at the stop.
  remapped,  ///< Not copied: a clean copy is at the target.
  stopped,   ///< Copied by the copy engine while the work is stopped.
  none,      ///< The streams would never all arrive at a gate.
};

struct WayChoice {
  Way way = Way::live;
  std::string reason;              ///< Why it is not `live`; empty if it is.
  StopKind stop = StopKind::gate;  ///< All but a gate need to know of no stream.
  /// A gate that does not close soon gives way to a suspension or a hold.
  bool gives_way = false;

  WayChoice stopped_instead(const std::string& why) const {
    return {Way::stopped, "stopped: " + why, stop, gives_way};
  }
  /// Whether one stop may serve both.
  bool moves_as(const WayChoice& other) const noexcept {
    return way == other.way && stop == other.stop && gives_way == other.gives_way;
  }
};

/// Facts that the choice depends on.
struct WayFacts {
  Location from, to;
  Mode mode = Mode::automatic;
  /// How much of a chunk of this allocation the last live copies found changed, 0 to 1.
  double dirty = 0;
  /// The target already has the bytes.
  bool target_clean = false;
};

/// The table of docs/internals/moves.md. `queues_of` tells a context's hardware queues.
/// Pure.
WayChoice choose_way(const WayFacts& facts, const GatePlan& plan, const Topology& topology,
                     const std::function<int(ContextHandle)>& queues_of);

}  // namespace vma
