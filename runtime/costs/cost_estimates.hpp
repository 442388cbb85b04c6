#pragma once

#include "machine/machine_description.hpp"
#include "machine/topology.hpp"

#include <vma/calibration.hpp>
#include <vma/snapshot.hpp>

namespace vma {

/// The id of a place: its index in `Topology::places()`.
PlaceId place_of(const Topology& topology, Place at);

/// The likely costs of a machine, derived from its link kinds alone: the H200's rates in
/// docs/results/migrations.md. `runtime/costs/README.md` has the table. Ranked.
MachineCosts estimated_costs(const Topology& topology);

/// The costs of the description for the places of the topology: rates of its links, calls by its
/// cost model. Latencies are estimates. Ranked. Throws: Error{invalid_argument} if the topology has
/// places that the description lacks.
MachineCosts described_costs(const Topology& topology, const MachineDescription& machine);

/// How GPUs are linked, with the description's rates for both directions combined.
PeerLinks described_peers(const Topology& topology, const MachineDescription& machine);

/// For GPUs without measurements: guesses of the right order of magnitude.
LaunchGaps estimated_gaps(const Topology& topology);

/// Seconds per byte for which work is stopped between gate and switch: the time in which a GPU
/// scans the chunk for changes, or the time of the copy if the chunk is copied while work is
/// stopped.
double settle_per_byte(const MachineCosts& costs, const Topology& topology, PlaceId from,
                       PlaceId to);

}  // namespace vma
