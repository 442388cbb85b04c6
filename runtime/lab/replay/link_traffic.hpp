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

/// A flow that is under way; its number may be used again after it has ended.
enum class FlowId : std::uint32_t {};

/// Bytes on their way over the links of a machine, in virtual time. Those who use a link at the
/// same time share it max-min fairly: who can take less than an equal share, because another link
/// of its own is fuller, leaves the rest to the others (progressive filling: Bertsekas and
/// Gallager, "Data Networks", 6.5.2).
///
/// Rates are found once for all that begins and ends at one time: when time goes on, or somebody
/// asks. That costs in proportion to the flows that are reached over full links, and to the levels
/// at which they are held; a step in time costs in proportion to all that are under way. Not
/// thread-safe.
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
  /// Several at once, which is the same as one after the other. Their numbers, until the next
  /// begin.
  std::span<const FlowId> begin(std::span<const NewFlow> flows, Time now);

  /// Takes a flow out, ended or not. Returns the bytes that were left.
  double end(FlowId flow, Time now);
  /// Several at once, for less. Valid until the next end.
  std::span<const double> end(std::span<const FlowId> flows, Time now);

  /// When the next flow ends if none begins; `Time::max()` without any. Rounded up.
  Time next_end();
  /// That flow; of several the one that began first. Requires: there is one.
  FlowId next();

  std::size_t size() const noexcept { return active_.size(); }
  /// Bytes a second, at present.
  double rate(FlowId flow);
  /// Bytes that went over a link since the start, up to the last begin or end.
  double carried(LinkId link) const { return carried_[link]; }

 private:
  struct Flow {
    const LinkPath* path = nullptr;  // Null: it has ended.
    double left = 0, rate_max = 0, rate = 0;
    std::uint64_t pass = 0;  // In which it got its rate, or is to get it.
    bool fixed = true;       // False while rates are found and it has none yet.
  };
  /// A line of the processor's cache, for finding rates goes over links again and again.
  struct alignas(64) Link {
    std::vector<std::uint32_t> flows;  // In the order of their beginning.
    double capacity = 0;
    double demand = 0;        // Of all its flows at their fastest.
    double room = 0;          // While rates are found: for the flows without one.
    std::size_t unfixed = 0;  // These.
    std::uint64_t pass = 0;   // In which its flows got their rates, or are to get them.

    /// One that could serve all its flows at their fastest holds nobody up.
    bool may_bind() const { return demand > capacity; }
  };
  static_assert(sizeof(Link) == 64);
  /// A flow has begun or ended: its links that may bind while it is under way. Whatever it can hold
  /// up, or has held up until now, is reached over these.
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
  std::vector<double> carried_;        // By link.
  std::vector<Change> changes_;        // Since rates were found. With any, those are of before.
  std::vector<std::uint32_t> joined_;  // While rates are found: flows that may change together.
  std::vector<LinkId> open_links_;     // Likewise: those between them that have flows without one.
  std::vector<FlowId> begun_;          // By the last call.
  std::vector<double> left_;           // Of what the last call has ended.
  std::uint64_t pass_ = 0;             // Of finding rates.
  Time now_{0};
  bool next_known_ = true;  // These are true.
  Time next_end_ = Time::max();
  FlowId next_{};
};

}  // namespace vma
