#pragma once

#include "lab/traffic/link_map.hpp"
#include "machine/machine_description.hpp"

#include <vma/calibration.hpp>
#include <vma/snapshot.hpp>

#include <optional>
#include <string>
#include <vector>

namespace vma {

/// The machine of a replay: places with their capacities, costs, and the links between them.
struct ReplayMachine {
  std::string name;
  std::vector<PlaceState> places;
  MachineCosts costs{0, 0};
  LinkMap links;
  LaunchGaps gaps = {};  ///< The gap before each access that is one kernel. Empty: none.
  LateStops late = {};   ///< The additional stall of a gate. Zero: none.
  PeerLinks peers = {};  ///< The input of `links`.
  /// To take a program off all GPUs and put it back. None: the machine cannot do that, or its
  /// description does not say how long it takes.
  std::optional<Time> suspension = {};
};

/// The machine as a runtime would initially assume it: costs from its description; each GPU's
/// memory minus 1 GiB (or minus a quarter if that is less); seven eighths of each host node's.
ReplayMachine replay_machine(const MachineDescription& machine);

}  // namespace vma
