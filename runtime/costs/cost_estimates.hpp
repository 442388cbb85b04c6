#pragma once

#include "machine/machine_description.hpp"
#include "machine/topology.hpp"

#include <vma/calibration.hpp>
#include <vma/snapshot.hpp>

namespace vma {

/// The place of a location: its index in `Topology::locations()`.
PlaceId place_of(const Topology& topology, Location at);

/// The likely costs of a machine, from its link kinds alone: the rates of the H200 in
/// docs/results/measurements.md. `docs/internals/machine_model.md` has the table. Ranked.
MachineCosts estimated_costs(const Topology& topology);

/// The costs of the description, for the places of the topology: rates of its links, calls by its
/// cost model. Latencies are estimates. Ranked. Throws: Error{invalid_argument} if the topology has
/// places that the description lacks.
MachineCosts described_costs(const Topology& topology, const MachineDescription& machine);

/// Which GPUs are linked how, with the description's rates for both directions.
PeerLinks described_peers(const Topology& topology, const MachineDescription& machine);

/// For unknown GPUs: guesses of the right order of magnitude.
LaunchGaps estimated_gaps(const Topology& topology);

/// Seconds per byte for which work is stopped between gate and switch: the time in which a GPU
/// scans the chunk for changes; or the copy, if moves copy stopped.
double settle_per_byte(const MachineCosts& costs, const Topology& topology, PlaceId from,
                       PlaceId to);

/// The straight line through two points: the cost of a chunk of any size.
struct LinearCost {
  Time fixed{0};
  double per_byte = 0;  ///< Seconds.

  /// Neither part is below zero. `least_per_byte` is a lower bound of the slope, for a part of it
  /// that is known otherwise. Requires: `small` < `large`.
  static LinearCost through(double small_bytes, Time small, double large_bytes, Time large,
                            double least_per_byte = 0);
};

}  // namespace vma
