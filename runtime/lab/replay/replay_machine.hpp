#pragma once

#include "lab/replay/link_map.hpp"
#include "machine/machine_description.hpp"

#include <vma/calibration.hpp>
#include <vma/snapshot.hpp>

#include <string>
#include <vector>

namespace vma {

/// The machine of a replay: places with their capacities, costs, and the links between them.
struct ReplayMachine {
  std::string name;
  std::vector<PlaceState> places;
  MachineCosts costs{0, 0};
  LinkMap links;
  LaunchGaps gaps = {};  ///< Before each access that is one kernel. Empty: none.
  LateStops late = {};   ///< The additional stall of a gate. Zero: none.
  PeerLinks peers = {};  ///< The input of `links`.
};

/// The initial assumptions of a runtime on such a machine: its description's costs; all of each
/// GPU's memory minus a GiB (minus a quarter if it is small), seven eighths of a host node's.
ReplayMachine replay_machine(const MachineDescription& machine);

}  // namespace vma
