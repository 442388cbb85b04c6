#pragma once

#include "machine/topology.hpp"
#include "migrate/gates/attached_streams.hpp"

#include <map>
#include <span>
#include <vector>

namespace vma {

/// One place where a gate stops work.
struct GateStop {
  /// An attached stream, or the legacy stream of its context in place of those that it orders.
  BoundStream stream;
  /// While one of these captures, the gate cannot be closed.
  std::vector<BoundStream> capture_watched;
  /// Whether graphs may be launched on it, or on a stream that it orders.
  bool graphs = false;
};

struct GatePlan {
  std::vector<GateStop> stops;
  /// The number of stops in each context: each takes one of its hardware queues.
  std::map<ContextHandle, int> stops_in;
};

/// Where a gate has to stop so that no work of these streams runs. Pure.
///
/// The legacy stream of a context runs after all work of blocking and per-thread streams and before
/// all that follows. Stopping both it and one of them would never end, so it stops in place of all
/// of them, or of none. It stops if it or a per-thread stream is among the streams: no other thread
/// can name that. It also stops if several blocking streams are marked as `together`, or have too
/// few hardware queues for stops of their own. Every other stream stops by itself, and holds none
/// of the others. So does one of unknown kind, which stops its work whatever it is: if it is a
/// blocking one and the legacy stream stops too, the gate does not close.
GatePlan plan_gate(std::span<const AttachedStreams::Stream> streams, const Topology& topology);

}  // namespace vma
