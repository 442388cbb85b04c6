#pragma once

#include "lab/replay/link_map.hpp"

#include <vma/snapshot.hpp>

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
/// more crowded, leaves the rest to the others (progressive filling: Bertsekas and Gallager, "Data
/// Networks", 6.5.2).
///
/// Rates are computed once for all flows that begin and end at the same time: when time advances,
/// or when a rate is queried. The cost is proportional to the number of flows reached over full
/// links, times the number of rate levels among them; a step in time costs in proportion to all
/// flows in progress. Not thread-safe.
class LinkTraffic {
 public:
  explicit LinkTraffic(const LinkMap& map);

  /// Begins a flow that never exceeds `rate_max`, even if the path allows more. Requires: `path`
  /// outlives the flow; both maximum rates are above zero.
  FlowId begin(const LinkPath& path, double bytes, Time now,
               double rate_max = std::numeric_limits<double>::infinity());
  struct NewFlow {
    const LinkPath* path = nullptr;
    double bytes = 0;
    double rate_max = std::numeric_limits<double>::infinity();
  };
  /// Begins several flows as if one after the other. Returns their ids; the span is valid until the
  /// next `begin`.
  std::span<const FlowId> begin(std::span<const NewFlow> flows, Time now);

  /// Removes a flow, whether it has ended or not. Returns its remaining bytes.
  double end(FlowId flow, Time now);
  /// Ends several flows at lower cost. Returns their remaining bytes; valid until the next `end`.
  std::span<const double> end(std::span<const FlowId> flows, Time now);

  /// Remaining bytes of a flow.
  double left(FlowId flow, Time now);

  /// When the next flow ends if no other begins, rounded up; `Time::max()` without flows.
  Time next_end();
  /// The flow that ends next; among several, the one that began first. Requires: there is a flow.
  FlowId next();

  std::size_t size() const noexcept { return active_.size(); }
  /// Current rate in bytes per second.
  double rate(FlowId flow);
  /// Bytes carried by a link since the start, up to the last `begin` or `end`.
  double carried(LinkId link) const { return carried_[link]; }

 private:
  struct Flow {
    const LinkPath* path = nullptr;  // Null: it has ended.
    double left = 0, rate_max = 0, rate = 0;
    std::uint64_t pass = 0;  // The last pass that computed its rate, or is computing it.
    bool fixed = true;       // False while rates are computed and its rate is not known yet.
  };
  /// One cache line: computing rates reads links again and again.
  struct alignas(64) Link {
    std::vector<std::uint32_t> flows;  // In order of their start.
    double capacity = 0;
    double demand = 0;  // Sum of the maximum rates of its flows.
    double room = 0;    // While rates are computed: capacity left for the flows without a rate.
    std::size_t unfixed = 0;  // Number of those flows.
    std::uint64_t pass = 0;   // The last pass that included its flows.

    /// A link that can serve all its flows at their maximum rates limits none of them.
    bool may_bind() const { return demand > capacity; }
  };
  static_assert(sizeof(Link) == 64);
  /// A flow began or ended: the links of its path that may limit flows. All flows that the change
  /// affects are reachable over these links.
  struct Change {
    std::array<LinkId, LinkPath::links_max> links{};
    std::uint8_t count = 0;
  };

  void advance(Time now);
  std::uint32_t enter(const NewFlow& flow);
  void leave(std::uint32_t number);
  void note_change(const LinkPath& path);
  void find_rates();
  void join(const Change& change);
  void join(LinkId link);
  void share();
  double slowest_unfixed() const;
  double next_level(LinkId& fullest);
  std::size_t fix(Flow& flow, double rate);
  bool find_ended();
  void find_next();

  std::vector<Flow> flows_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> active_;  // In order of their start.
  std::vector<Link> links_;
  std::vector<double> carried_;  // Per link.
  std::vector<Change> changes_;  // Since rates were computed. If not empty, the rates are outdated.
  std::vector<std::uint32_t> joined_;  // While rates are computed: flows that affect each other.
  std::vector<LinkId> open_links_;     // Likewise: their links with flows that have no rate yet.
  std::vector<FlowId> begun_;          // Flows begun by the last call.
  std::vector<double> left_;           // Remaining bytes of the flows ended by the last call.
  std::uint64_t pass_ = 0;             // Number of the last computation of rates.
  Time now_{0};
  bool next_known_ = true;  // Whether the members below are valid.
  Time next_end_ = Time::max();
  FlowId next_{};
};

}  // namespace vma
