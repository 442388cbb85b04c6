#include "lab/link_traffic.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vma {

LinkTraffic::LinkTraffic(const LinkMap& map) : map_(map), links_(map.size()) {}

FlowId LinkTraffic::begin(const LinkPath& path, double bytes, Time now, double rate_max) {
  VMART_CHECK(path.rate_max > 0 && rate_max > 0, "there is a way for the bytes");
  advance(now);
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(flows_.size()));
    flows_.emplace_back();
  }
  const std::uint32_t number = free_.back();
  free_.pop_back();
  Flow& flow = flows_[number];
  const double most = std::min(path.rate_max, rate_max);
  flow = {&path, bytes, most, most, false};
  active_.push_back(number);
  count(flow, 1);
  if (!alone(path)) {
    join(path);
    share();
  }
  find_next();
  return FlowId{number};
}

double LinkTraffic::end(FlowId id, Time now) {
  advance(now);
  const auto number = static_cast<std::uint32_t>(id);
  const LinkPath& path = *flows_[number].path;
  const double left = std::max(flows_[number].left, 0.0);
  active_.erase(std::ranges::find(active_, number));
  free_.push_back(number);
  count(flows_[number], -1);
  if (!alone(path)) {
    join(path);
    share();
  }
  find_next();
  return left;
}

void LinkTraffic::advance(Time now) {
  VMART_CHECK(now >= now_, "virtual time only rises");
  const double seconds = std::chrono::duration<double>(now - now_).count();
  now_ = now;
  if (seconds == 0) return;
  for (const std::uint32_t number : active_) {
    Flow& flow = flows_[number];
    const double bytes = std::min(flow.rate * seconds, std::max(flow.left, 0.0));
    flow.left -= bytes;
    for (const LinkId link : flow.path->links()) links_[link].carried += bytes;
  }
}

/// A link that could serve all its flows at their fastest holds nobody up, and joins nobody.
bool LinkTraffic::may_bind(LinkId link) const {
  return links_[link].demand > map_.capacity(link);
}

bool LinkTraffic::alone(const LinkPath& path) const {
  return std::ranges::none_of(path.links(), [&](LinkId link) { return links_[link].joins; });
}

void LinkTraffic::count(const Flow& flow, int sign) {
  for (const LinkId link : flow.path->links()) {
    Link& each = links_[link];
    each.flows += static_cast<std::uint32_t>(sign);
    each.demand = each.flows == 0 ? 0 : each.demand + sign * flow.rate_max;
    each.joins = each.joins || may_bind(link);  // Bound before the change, or after it.
  }
}

/// Finds every flow that a change on the path can reach: over links that may bind. Those that bound
/// before the change do until then.
void LinkTraffic::join(const LinkPath& path) {
  joined_.clear();
  joined_links_.clear();
  const auto add = [&](LinkId link) {
    if (!links_[link].joins || links_[link].joined) return;
    links_[link].joined = true;
    joined_links_.push_back(link);
  };
  for (const std::uint32_t number : active_) flows_[number].fixed = true;
  for (const LinkId link : path.links()) add(link);
  for (std::size_t next = 0; next < joined_links_.size(); ++next) {
    for (const std::uint32_t number : active_) {
      Flow& flow = flows_[number];
      const std::span<const LinkId> own = flow.path->links();
      if (!flow.fixed || std::ranges::find(own, joined_links_[next]) == own.end()) continue;
      flow.fixed = false;
      joined_.push_back(number);
      for (const LinkId link : own) add(link);
    }
  }
}

/// Rises the level of all until somebody has his fastest, or a link is full: those are fixed, and
/// it goes on with the others.
void LinkTraffic::share() {
  for (const LinkId link : joined_links_) {
    links_[link].room = map_.capacity(link);
    links_[link].unfixed = links_[link].flows;
  }
  while (!joined_.empty()) {
    double level = std::numeric_limits<double>::infinity();
    LinkId fullest = 0;
    for (const LinkId link : joined_links_) {
      if (links_[link].unfixed == 0) continue;
      const double each = links_[link].room / links_[link].unfixed;
      if (each < level) {
        level = each;
        fullest = link;
      }
    }
    level = std::max(level, 1.0);  // Rounding leaves nobody standing.
    if (!fix([&](const Flow& flow) { return flow.rate_max <= level; }, level)) {
      fix(
          [&](const Flow& flow) {
            const std::span<const LinkId> own = flow.path->links();
            return std::ranges::find(own, fullest) != own.end();
          },
          level);
    }
  }
  for (const LinkId link : joined_links_) {
    links_[link].joined = false;
    links_[link].joins = may_bind(link);
  }
}

/// Those that are chosen get the level, or their fastest. False: there are none.
template <typename Chosen>
bool LinkTraffic::fix(Chosen&& chosen, double level) {
  std::size_t left = 0;
  for (const std::uint32_t number : joined_) {
    Flow& flow = flows_[number];
    if (!chosen(flow)) {
      joined_[left++] = number;
      continue;
    }
    flow.rate = std::min(level, flow.rate_max);
    for (const LinkId link : flow.path->links()) {
      if (!links_[link].joined) continue;
      links_[link].room -= flow.rate;
      --links_[link].unfixed;
    }
  }
  const bool any = left < joined_.size();
  joined_.resize(left);
  return any;
}

void LinkTraffic::find_next() {
  double soonest = 0;
  const Flow* first = nullptr;
  for (const std::uint32_t number : active_) {
    const Flow& flow = flows_[number];
    const double seconds = std::max(flow.left, 0.0) / flow.rate;
    if (first != nullptr && seconds >= soonest) continue;
    first = &flow;
    soonest = seconds;
    next_ = FlowId{number};
  }
  next_end_ = Time::max();
  if (first == nullptr) return;
  // What takes longer than the clock can tell never ends.
  const double nanoseconds = std::ceil(soonest * 1e9);
  if (nanoseconds < static_cast<double>((Time::max() - now_).count()))
    next_end_ = now_ + Time(static_cast<Time::rep>(nanoseconds));
}

}  // namespace vma
