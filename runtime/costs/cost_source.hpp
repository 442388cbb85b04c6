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
  std::vector<std::string> estimates;  ///< What a calibration did not measure.
};

/// The costs of the machine. `choice` is VMART_CALIBRATION. "auto" or empty selects the stored
/// calibration, or else a simulated machine's description, or else estimates by link kinds. "off"
/// does the same without the stored calibration. Anything else names a calibration or machine file,
/// which must contain all the places. Measures nothing. Throws: Error{invalid_argument} if a named
/// file cannot be used; a stored one that cannot be used is ignored with a warning.
SourcedCosts source_costs(Driver& driver, const Topology& topology, const std::string& choice);

}  // namespace vma
