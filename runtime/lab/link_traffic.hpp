#pragma once

#include "lab/link_map.hpp"

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace vma {

/// A flow that is under way; its number may be used again after it has ended.
enum class FlowId : std::uint32_t {};

/// Bytes on their way over the links of a machine, in virtual time. Those who use a link at the
/// same time share it max-min fairly: who can take less than an equal share, because another link
/// of its own is fuller, leaves the rest to the others (progressive filling: Bertsekas and
/// Gallager, "Data Networks", 6.5.2).
///
/// A begin or an end costs in proportion to the flows that it reaches over full links, and to the
/// levels at which they are held; a step in time to all that are under way. Not thread-safe.
class LinkTraffic {
 public:
  explicit LinkTraffic(const LinkMap& map);

  /// Never faster than `rate_max`, whatever the path allows. Requires: `path` lives as long as the
  /// flow; its `rate_max` and the flow's are above zero.
  FlowId begin(const LinkPath& path, double bytes, Time now,
               double rate_max = std::numeric_limits<double>::infinity());
  struct NewFlow {
    const LinkPath* path = nullptr;
    double bytes = 0;
    double rate_max = std::numeric_limits<double>::infinity();
  };
  /// Several at once, for less than one after the other and with the same rates, to the last bit.
  /// Their numbers, until the next begin.
  std::span<const FlowId> begin(std::span<const NewFlow> flows, Time now);

  /// Takes a flow out, ended or not. Returns the bytes that were left.
  double end(FlowId flow, Time now);
  /// Several at once, likewise. Valid until the next end.
  std::span<const double> end(std::span<const FlowId> flows, Time now);

  /// When the next flow ends if none begins; `Time::max()` without any. Rounded up.
  Time next_end();
  /// That flow; of several the one that began first. Requires: there is one.
  FlowId next();

  std::size_t size() const noexcept { return active_.size(); }
  /// Bytes a second, at present.
  double rate(FlowId flow) const { return flows_[static_cast<std::size_t>(flow)].rate; }
  /// Bytes that went over a link since the start, up to the last begin or end.
  double carried(LinkId link) const { return links_[link].carried; }

 private:
  struct Flow {
    const LinkPath* path = nullptr;
    double left = 0, rate_max = 0, rate = 0;
    std::uint64_t batch = 0;  // Of begins, in which it has got its rate.
    bool fixed = true;        // False while rates are found and it has none yet.
    bool ends = false;
  };
  struct Link {
    std::vector<std::uint32_t> flows;  // In the order of their beginning.
    std::size_t unfixed = 0;           // While rates are found: flows without one.
    double demand = 0;                 // Of all its flows at their fastest.
    double room = 0;                   // While rates are found.
    double carried = 0;
    bool joins = false;    // Its flows may hold each other up.
    bool joined = false;   // While rates are found: it may bind.
    bool empties = false;  // While flows end: whoever it reaches ends too.
  };

  void advance(Time now);
  bool may_bind(LinkId link) const;
  bool alone(const LinkPath& path) const;
  bool emptied(const LinkPath& path) const;
  std::uint32_t enter(const NewFlow& flow);
  void leave(std::uint32_t number);
  void change_demand(LinkId link, double change);
  void join(const LinkPath& path);
  void share();
  void part();
  double slowest_unfixed() const;
  double next_level(LinkId& fullest);
  std::size_t fix(Flow& flow, double rate);
  void find_next();

  const LinkMap& map_;
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> active_;  // In the order of their beginning.
  std::vector<std::uint32_t> joined_;  // While rates are found: flows that may change.
  std::vector<LinkId> joined_links_;
  std::vector<LinkId> open_links_;  // Of these, while rates are found: with flows without one.
  std::vector<Link> links_;
  std::vector<FlowId> begun_;  // By the last call.
  std::vector<double> left_;   // Of what the last call has ended.
  std::uint64_t batch_ = 0;    // Of begins.
  Time now_{0};
  bool next_known_ = true;  // These are true.
  Time next_end_ = Time::max();
  FlowId next_{};
};

}  // namespace vma
