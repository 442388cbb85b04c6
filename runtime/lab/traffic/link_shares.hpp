#pragma once

#include "lab/traffic/link_map.hpp"
#include "lab/traffic/traffic_lane.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vma {

/// Shares links max-min fairly among lanes: finds the level of each lane, the most that one of its
/// flows gets (progressive filling: Bertsekas and Gallager, "Data Networks", 6.5.2). Considers only
/// links that may limit flows, and lanes that a change reaches over such links. The cost depends on
/// the number of these links and lanes, not on the number of flows. Not thread-safe.
class LinkShares {
 public:
  explicit LinkShares(const LinkMap& map);

  /// The lane takes part from now on, with its present demand, until `close`. Requires: it has
  /// flows.
  void open(std::uint32_t lane, const TrafficLane& state);
  /// Requires: the lane still has the demand that was added to the links.
  void close(std::uint32_t lane, const TrafficLane& state);
  /// A flow of an open lane begins, or ends.
  void add(const LinkPath& path, double demand);
  void remove(const LinkPath& path, double demand);

  bool outdated() const noexcept { return !changed_.empty(); }
  struct Level {
    std::uint32_t lane = 0;
    double level = TrafficLane::no_level;
  };
  /// Returns the lanes whose level may have changed since the last call, with their levels. Valid
  /// until the next call.
  std::span<const Level> find(std::vector<TrafficLane>& lanes);

 private:
  struct Link {
    std::vector<std::uint32_t> lanes;  // Open ones.
    double capacity = 0;
    double demand = 0;  // Sum over its lanes.
    double room = 0;    // While levels are computed: capacity left for the lanes without a level.
    double level = 0;   // Of these lanes, if no other link limits them more. Computed from `room`.
    std::size_t unfixed = 0;  // Number of those lanes.
    bool level_known = false;
    bool changed = false;    // In `changed_`.
    std::uint64_t pass = 0;  // The last pass that included its lanes.

    /// A link that can serve all its flows at their maximum rates limits none of them.
    bool may_bind() const { return demand > capacity; }
  };
  struct LaneState {
    std::uint64_t pass = 0;     // As in `Link`.
    std::uint32_t reached = 0;  // Its index in `reached_` in that pass.
  };

  void note_change(LinkId link);
  void join(LinkId link);
  bool has_level(std::uint32_t lane) const {
    return reached_[lanes_[lane].reached].level < TrafficLane::no_level;
  }
  double find_level(Link& link, std::vector<TrafficLane>& lanes) const;
  LinkId fullest(std::vector<TrafficLane>& lanes);
  void fix(LinkId link, std::vector<TrafficLane>& lanes);

  std::vector<Link> links_;
  std::vector<LaneState> lanes_;
  std::vector<LinkId> changed_;     // Links whose flows may have got another rate.
  std::vector<LinkId> open_links_;  // While levels are computed: links with lanes without a level.
  std::vector<Level> reached_;      // Likewise: lanes that affect each other.
  std::uint64_t pass_ = 0;          // Number of the last computation of levels.
};

}  // namespace vma
