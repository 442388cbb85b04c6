#pragma once

#include "lab/replay/link_map.hpp"
#include "machine/machine_description.hpp"

#include <vma/calibration.hpp>
#include <vma/snapshot.hpp>

#include <string>
#include <vector>

namespace vma {

/// What a trace is replayed on: places with their capacities, what they cost, and the links
/// between them.
struct ReplayMachine {
  std::string name;
  std::vector<PlaceState> places;
  MachineCosts costs{0, 0};
  LinkMap links;
  LaunchGaps gaps = {};  ///< Before each access that is one kernel. Empty: none.
  LateStops late = {};   ///< What a gate's stall is longer by. Zero: all are alike.
  PeerLinks peers = {};  ///< What `links` know of them.
};

/// What a runtime on such a machine would start from: its description's costs; of each GPU's memory
/// all but a GiB (a quarter of a small one), of a host node's seven eighths.
ReplayMachine replay_machine(const MachineDescription& machine);

}  // namespace vma
