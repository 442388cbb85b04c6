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

/// A flow in progress; its number may be reused after it has ended.
enum class FlowId : std::uint32_t {};

/// Bytes in transit over the links of a machine, in virtual time. Concurrent users of a link share
/// it max-min fairly: a flow that can take less than an equal share, because another of its links
/// is fuller, leaves the rest to the others (progressive filling: Bertsekas and Gallager, "Data
/// Networks", 6.5.2).
///
/// Rates are computed once for all flows that begin and end at one time: when time advances, or
/// when they are queried. The cost is proportional to the flows reached over full links, and to the
/// levels at which they are limited; a step in time costs in proportion to all flows in progress.
/// Not thread-safe.
class LinkTraffic {
 public:
  explicit LinkTraffic(const LinkMap& map);

  /// Never faster than `rate_max`, whatever the path allows. Requires: `path` outlives the flow;
  /// its `rate_max` and the flow's are above zero.
  FlowId begin(const LinkPath& path, double bytes, Time now,
               double rate_max = std::numeric_limits<double>::infinity());
  struct NewFlow {
    const LinkPath* path = nullptr;
    double bytes = 0;
    double rate_max = std::numeric_limits<double>::infinity();
  };
  /// Begins several at once, as if one after the other. Returns their numbers, valid until the next
  /// begin.
  std::span<const FlowId> begin(std::span<const NewFlow> flows, Time now);

  /// Removes a flow, ended or not. Returns the bytes that were left.
  double end(FlowId flow, Time now);
  /// Ends several at once, which is cheaper. Valid until the next end.
  std::span<const double> end(std::span<const FlowId> flows, Time now);

  /// When the next flow ends if none begins; `Time::max()` without any. Rounded up.
  Time next_end();
  /// That flow; of several the one that began first. Requires: there is a flow.
  FlowId next();

  std::size_t size() const noexcept { return active_.size(); }
  /// Current rate in bytes per second.
  double rate(FlowId flow);
  /// Bytes that went over a link since the start, up to the last begin or end.
  double carried(LinkId link) const { return carried_[link]; }

 private:
  struct Flow {
    const LinkPath* path = nullptr;  // Null: it has ended.
    double left = 0, rate_max = 0, rate = 0;
    std::uint64_t pass = 0;  // The pass in which it got its rate, or will get it.
    bool fixed = true;       // False while rates are computed and it has none yet.
  };
  /// A cache line of the processor: computing rates reads links again and again.
  struct alignas(64) Link {
    std::vector<std::uint32_t> flows;  // In the order of their beginning.
    double capacity = 0;
    double demand = 0;        // Of all its flows at their fastest.
    double room = 0;          // While rates are computed: for the flows without one.
    std::size_t unfixed = 0;  // These.
    std::uint64_t pass = 0;   // The pass in which its flows got their rates, or will get them.

    /// A link that can serve all its flows at their fastest limits none.
    bool may_bind() const { return demand > capacity; }
  };
  static_assert(sizeof(Link) == 64);
  /// A flow has begun or ended: the links that may limit flows while it is in progress. All flows
  /// that it affects, or affected until now, are reached over these.
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
  std::vector<std::uint32_t> active_;  // In the order of their beginning.
  std::vector<Link> links_;
  std::vector<double> carried_;  // By link.
  std::vector<Change> changes_;  // Since rates were computed. If not empty, those are outdated.
  std::vector<std::uint32_t> joined_;  // While rates are computed: flows that may change together.
  std::vector<LinkId> open_links_;     // Likewise: links between them with flows without a rate.
  std::vector<FlowId> begun_;          // By the last call.
  std::vector<double> left_;           // Remaining bytes of the flows that the last call ended.
  std::uint64_t pass_ = 0;             // The number of the last computation of rates.
  Time now_{0};
  bool next_known_ = true;  // The members below are valid.
  Time next_end_ = Time::max();
  FlowId next_{};
};

}  // namespace vma
