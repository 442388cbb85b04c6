#pragma once

#include "machine/machine_description.hpp"
#include "machine/topology.hpp"

#include <vma/calibration.hpp>
#include <vma/snapshot.hpp>

namespace vma {

/// The place of a location: its index in `Topology::locations()`.
PlaceId place_of(const Topology& topology, Location at);

/// What a machine with such links is likely to cost, from its link kinds alone: the rates of the
/// H200 in docs/results/measurements.md. `docs/internals/machine_model.md` has the table. Ranked.
MachineCosts estimated_costs(const Topology& topology);

/// What the description says, for the places of the topology: rates of its links, calls by its cost
/// model. Latencies are estimates. Ranked. Throws: Error{invalid_argument} where the topology has
/// places that the description has not.
MachineCosts described_costs(const Topology& topology, const MachineDescription& machine);

/// Who is linked how, and what the description says of both ways.
PeerLinks described_peers(const Topology& topology, const MachineDescription& machine);

/// Of GPUs of which nothing is known: guesses of the right order.
LaunchGaps estimated_gaps(const Topology& topology);

/// Seconds a byte that work stands for between gate and switch: the time in which a GPU goes over
/// the chunk to find what changed; or the copy, where moves copy stopped.
double settle_per_byte(const MachineCosts& costs, const Topology& topology, PlaceId from,
                       PlaceId to);

/// The straight line through two points: what a chunk costs of any size.
struct LinearCost {
  Time fixed{0};
  double per_byte = 0;  ///< Seconds.

  /// Neither part is below zero. `least_per_byte` is what the slope is at least, for a part of it
  /// that is known otherwise. Requires: `small` < `large`.
  static LinearCost through(double small_bytes, Time small, double large_bytes, Time large,
                            double least_per_byte = 0);
};

}  // namespace vma
