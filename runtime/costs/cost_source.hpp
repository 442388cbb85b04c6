#pragma once

#include "driver/driver.hpp"
#include "machine/topology.hpp"

#include <vma/calibration.hpp>
#include <vma/snapshot.hpp>

#include <string>
#include <vector>

namespace vma {

/// Where a runtime's costs come from. `measured` is a calibration of this machine.
enum class CostOrigin { measured, described, estimated };

struct SourcedCosts {
  MachineCosts costs{0, 0};
  LaunchGaps gaps;
  PeerLinks peers;
  CostOrigin origin = CostOrigin::estimated;
  std::string from;                    ///< A file, a machine's name, or "link kinds".
  std::vector<std::string> estimates;  ///< For a calibration: what is not measured.
};

/// The costs of the machine. `choice` is VMART_CALIBRATION: "auto" or empty takes the stored
/// calibration, else a simulated machine's description, else estimates by link kinds; "off" does
/// the same without the stored one; anything else names a file, a calibration or a machine file,
/// which must have all the places. Measures nothing. Throws: Error{invalid_argument} for a named
/// file that cannot be used; a stored one that cannot be used is ignored with a warning.
SourcedCosts source_costs(Driver& driver, const Topology& topology, const std::string& choice);

}  // namespace vma
