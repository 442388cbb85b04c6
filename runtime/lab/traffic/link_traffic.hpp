#pragma once

#include "lab/traffic/link_map.hpp"
#include "lab/traffic/link_shares.hpp"
#include "lab/traffic/traffic_lane.hpp"

#include <vma/snapshot.hpp>

#include <boost/unordered/unordered_flat_map.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace vma {

/// A flow in progress. Its id may be reused after it has ended.
enum class FlowId : std::uint32_t {};

/// Bytes in transit over the links of a machine, in virtual time. Concurrent users of a link share
/// it max-min fairly: a flow that gets less than an equal share, because another of its links is
/// more crowded, leaves the rest to the others (`LinkShares`).
///
/// Flows over the same path form a lane (`TrafficLane`), and a change of its level changes the
/// rates of all of them at once. So the beginning or end of a flow costs in proportion to the lanes
/// that it affects, and to the logarithm of the flows in its own lane; flows that stay limited by
/// their own maximum, and steps in time, cost nothing. Rates are computed once for all flows that
/// begin and end at the same time: when time advances, or when a rate is queried. Not thread-safe.
/// One owner: flows, lanes and the next end change together when a flow begins or ends.
class LinkTraffic {
 public:
  explicit LinkTraffic(const LinkMap& map);
  // Lanes point to the flows.
  LinkTraffic(const LinkTraffic&) = delete;
  LinkTraffic& operator=(const LinkTraffic&) = delete;

  /// Begins a flow that never exceeds `rate_max`, even if the path allows more. Requires: `path`
  /// outlives the flow; both maximum rates are above zero.
  FlowId begin(const LinkPath& path, double bytes, Time now,
               double rate_max = std::numeric_limits<double>::infinity());
  struct NewFlow {
    const LinkPath* path = nullptr;
    double bytes = 0;
    double rate_max = std::numeric_limits<double>::infinity();
    bool pauses = false;  ///< `pause` stops it.
  };
  /// Begins several flows as if one after the other. Returns their ids; the span is valid until the
  /// next `begin`.
  std::span<const FlowId> begin(std::span<const NewFlow> flows, Time now);

  /// Removes a flow, whether it has ended or not. Returns its remaining bytes.
  double end(FlowId flow, Time now);
  /// Ends several flows. Returns their remaining bytes; valid until the next `end`.
  std::span<const double> end(std::span<const FlowId> flows, Time now);

  /// Remaining bytes of a flow.
  double left(FlowId flow, Time now);

  /// Stops all flows that begin or have begun with `pauses`, until `resume`. They keep their ids,
  /// their order and their remaining bytes, and have the rate zero. Costs in proportion to the
  /// paths in use, not to the flows. Requires: not paused, or for `resume`, paused.
  void pause(Time now);
  void resume(Time now);

  /// When the next flow ends if no other begins, rounded up; `Time::max()` without flows.
  Time next_end() {
    if (!next_known_) find_next_end();
    return next_end_;
  }
  /// The flow that ends next; among several, the one that began first. Requires: a flow is not
  /// paused.
  FlowId next();

  std::size_t size() const noexcept { return size_; }
  /// Current rate in bytes per second.
  double rate(FlowId flow);
  /// Bytes carried by each link since the start, up to the last `begin` or `end`.
  std::vector<double> carried() const;

 private:
  /// A flow that has ended, unless its number belongs to another flow by now.
  struct Ended {
    std::uint64_t order = 0;
    std::uint32_t flow = 0;
  };

  /// When the next flow of a lane ends, by the rates known so far.
  struct LaneEnd {
    Time end = Time::max();
    std::uint32_t lane = 0;
  };

  void advance(Time now);
  std::uint32_t lane_for(const NewFlow& flow);
  std::uint32_t enter(const NewFlow& flow);
  void leave(std::uint32_t number);
  void find_rates();
  void lane_changed(std::uint32_t lane);
  bool skip_removed();
  Time soonest_end() const;
  void find_next_end();
  void take_ended();
  void put_back_ended();

  std::vector<TrafficFlow> flows_;
  std::vector<std::uint32_t> free_;
  std::vector<TrafficLane> lanes_;
  std::vector<LaneEnd> lane_ends_;          // Of lanes with flows, in any order.
  std::vector<std::uint32_t> end_of_lane_;  // By lane: the index in `lane_ends_`, or none.
  /// The lanes of a path: of flows that never pause, and of those that may.
  boost::unordered_flat_map<const LinkPath*, std::array<std::uint32_t, 2>> lanes_of_;
  std::vector<std::uint32_t> pausing_;  // The lanes of flows that may pause.
  LinkShares shares_;
  std::vector<double> carried_;  // Per link, by flows that were removed.
  std::vector<FlowId> begun_;    // Flows begun by the last call.
  std::vector<double> left_;     // Remaining bytes of the flows ended by the last call.
  std::size_t size_ = 0;
  std::uint64_t begins_ = 0;
  bool paused_ = false;
  Time now_{0};
  bool next_known_ = true;  // Whether the next member is valid.
  Time next_end_ = Time::max();
  // Flows that end at `ended_at_`, in the order of their beginning, from `ended_begin_` on.
  std::vector<Ended> ended_;
  std::size_t ended_begin_ = 0;
  Time ended_at_ = Time::min();
  std::vector<std::uint32_t> taken_;  // Buffer of one call.
};

}  // namespace vma
