#pragma once

#include "machine/topology.hpp"
#include "migrate/gates/attached_streams.hpp"
#include "migrate/stops/stop_stats.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
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

/// The streams that may use some allocations, as one gate stops them. One thread, one gate.
class GateStreams {
 public:
  GateStreams(AttachedStreams& attached, const Topology& topology,
              std::vector<Address> allocations);

  /// Lists them and plans where they stop. Only once it is the gate's turn: a thread that detaches
  /// one waits for `let_go`, and turns may take long.
  void name();
  const GatePlan& plan() const noexcept { return plan_; }
  /// Their GPUs.
  const std::set<DeviceId>& gpus() const noexcept { return gpus_; }
  /// A refusal if there are none any more.
  std::optional<StopRefusal> require_any() const;
  /// From here on none is attached, as long as they are not let go.
  void keep();
  /// Keeps them. A refusal if one was attached since they were named, whose work may run.
  std::optional<StopRefusal> require_same();
  /// The program wants one back.
  bool wanted() const noexcept { return use_ && use_->wanted(); }
  /// Nothing is stopped any more.
  void let_go() noexcept;

 private:
  AttachedStreams& attached_;
  const Topology& topology_;
  const std::vector<Address> allocations_;
  GatePlan plan_;
  std::set<DeviceId> gpus_;
  std::uint64_t last_attach_ = 0;  // To the allocations, before the streams were listed.
  std::optional<AttachedStreams::Use> use_;
  std::optional<MutexLock> nobody_attaches_;
};

}  // namespace vma
