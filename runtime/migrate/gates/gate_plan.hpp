#pragma once

#include "migrate/gates/attached_streams.hpp"

#include <map>
#include <span>
#include <vector>

namespace vma {

/// One place where a gate stops work.
struct GateStop {
  /// A non-blocking stream, or the legacy stream of its context.
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
/// Every non-blocking stream stops by itself, and so does a blocking stream that is the only one of
/// its context. Of several blocking, legacy and per-thread streams of a context only the legacy
/// stream stops: it runs after all work of these and before all that follows, and stopping both it
/// and one of them would never end. It is also the only way to reach a per-thread stream, which no
/// other thread can name. A stream of unknown kind stops by itself, which stops its work whatever
/// it is: if it is a blocking one that another stop waits for, the gate does not close.
GatePlan plan_gate(std::span<const AttachedStreams::Stream> streams);

}  // namespace vma
