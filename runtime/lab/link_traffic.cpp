#include "lab/link_traffic.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vma {

LinkTraffic::LinkTraffic(const LinkMap& map) : map_(map), links_(map.size()) {}

FlowId LinkTraffic::begin(const LinkPath& path, double bytes, Time now, double rate_max) {
  const NewFlow flow{&path, bytes, rate_max};
  return begin(std::span(&flow, 1), now).front();
}

/// Each begin would find the rates of all that it reaches; where a later one reaches these too, it
/// finds them anew. So the last ones do it, and only for those that none after them has reached.
std::span<const FlowId> LinkTraffic::begin(std::span<const NewFlow> flows, Time now) {
  begun_.clear();
  if (flows.empty()) return begun_;  // And time has no step here: sums would round otherwise.
  advance(now);
  for (const NewFlow& flow : flows) begun_.push_back(FlowId{enter(flow)});
  ++batch_;
  for (std::size_t i = flows.size(); i-- > 0;) {
    const Flow& flow = flows_[static_cast<std::size_t>(begun_[i])];
    if (flow.batch == batch_ || alone(*flow.path)) continue;
    join(*flow.path);
    share();
  }
  return begun_;
}

double LinkTraffic::end(FlowId flow, Time now) {
  return end(std::span(&flow, 1), now).front();
}

/// In the order of their ends, for that decides how sums round. What reaches only such as end too
/// needs no rates, and is not looked at again: ends only part links from each other.
std::span<const double> LinkTraffic::end(std::span<const FlowId> flows, Time now) {
  left_.clear();
  if (flows.empty()) return left_;
  advance(now);
  for (const FlowId id : flows) flows_[static_cast<std::size_t>(id)].ends = true;
  std::erase_if(active_, [&](std::uint32_t number) { return flows_[number].ends; });
  for (const FlowId id : flows) {
    const auto number = static_cast<std::uint32_t>(id);
    left_.push_back(std::max(flows_[number].left, 0.0));
    leave(number);
    const LinkPath& path = *flows_[number].path;
    if (alone(path)) continue;
    if (emptied(path)) {
      for (const LinkId link : path.links()) links_[link].joins = may_bind(link);
      continue;
    }
    join(path);
    if (std::ranges::any_of(joined_, [&](std::uint32_t each) { return !flows_[each].ends; })) {
      share();
      continue;
    }
    for (const LinkId link : joined_links_) links_[link].empties = true;
    part();
  }
  for (Link& link : links_) link.empties = false;
  return left_;
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

/// All that the path reaches ends in this call.
bool LinkTraffic::emptied(const LinkPath& path) const {
  return std::ranges::all_of(
      path.links(), [&](LinkId link) { return !links_[link].joins || links_[link].empties; });
}

std::uint32_t LinkTraffic::enter(const NewFlow& flow) {
  VMART_CHECK(flow.path->rate_max > 0 && flow.rate_max > 0, "there is a way for the bytes");
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(flows_.size()));
    flows_.emplace_back();
  }
  const std::uint32_t number = free_.back();
  free_.pop_back();
  const double most = std::min(flow.path->rate_max, flow.rate_max);
  flows_[number] = {flow.path, flow.bytes, most, most};
  active_.push_back(number);
  next_known_ = false;
  for (const LinkId link : flow.path->links()) {
    links_[link].flows.push_back(number);
    change_demand(link, most);
  }
  return number;
}

void LinkTraffic::leave(std::uint32_t number) {
  free_.push_back(number);
  next_known_ = false;
  const Flow& flow = flows_[number];
  for (const LinkId link : flow.path->links()) {
    std::vector<std::uint32_t>& flows = links_[link].flows;
    flows.erase(std::ranges::find(flows, number));
    change_demand(link, -flow.rate_max);
  }
}

void LinkTraffic::change_demand(LinkId link, double change) {
  Link& each = links_[link];
  each.demand = each.flows.empty() ? 0 : each.demand + change;
  each.joins = each.joins || may_bind(link);  // Bound before the change, or after it.
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
  for (const LinkId link : path.links()) add(link);
  for (std::size_t next = 0; next < joined_links_.size(); ++next) {
    for (const std::uint32_t number : links_[joined_links_[next]].flows) {
      Flow& flow = flows_[number];
      if (!flow.fixed) continue;
      flow.fixed = false;
      flow.batch = batch_;
      joined_.push_back(number);
      for (const LinkId link : flow.path->links()) add(link);
    }
  }
}

/// Rises the level of all until somebody has his fastest, or a link is full: those are fixed, and
/// it goes on with the others.
void LinkTraffic::share() {
  for (const LinkId link : joined_links_) {
    links_[link].room = map_.capacity(link);
    links_[link].unfixed = links_[link].flows.size();
  }
  open_links_ = joined_links_;
  double slowest = slowest_unfixed();
  for (std::size_t left = joined_.size(); left > 0;) {
    LinkId fullest = 0;
    const double level = std::max(next_level(fullest), 1.0);  // Rounding leaves nobody standing.
    if (slowest <= level) {
      for (const std::uint32_t number : joined_) {
        Flow& flow = flows_[number];
        if (!flow.fixed && flow.rate_max <= level) left -= fix(flow, flow.rate_max);
      }
      slowest = slowest_unfixed();
    } else {
      for (const std::uint32_t number : links_[fullest].flows) {
        Flow& flow = flows_[number];
        if (!flow.fixed) left -= fix(flow, level);
      }
    }
  }
  part();
}

double LinkTraffic::slowest_unfixed() const {
  double slowest = std::numeric_limits<double>::infinity();
  for (const std::uint32_t number : joined_) {
    if (!flows_[number].fixed) slowest = std::min(slowest, flows_[number].rate_max);
  }
  return slowest;
}

/// At which the first of the links is full. Forgets those that hold nobody up any more.
double LinkTraffic::next_level(LinkId& fullest) {
  double level = std::numeric_limits<double>::infinity();
  std::size_t open = 0;
  for (const LinkId link : open_links_) {
    if (links_[link].unfixed == 0) continue;
    open_links_[open++] = link;
    const double each = links_[link].room / static_cast<double>(links_[link].unfixed);
    if (each < level) {
      level = each;
      fullest = link;
    }
  }
  open_links_.resize(open);
  return level;
}

/// What `join` has joined is apart again.
void LinkTraffic::part() {
  for (const std::uint32_t number : joined_) flows_[number].fixed = true;
  joined_.clear();
  for (const LinkId link : joined_links_) {
    links_[link].joined = false;
    links_[link].joins = may_bind(link);
  }
}

/// Returns how many are fixed now that were not.
std::size_t LinkTraffic::fix(Flow& flow, double rate) {
  flow.rate = rate;
  flow.fixed = true;
  for (const LinkId link : flow.path->links()) {
    if (!links_[link].joined) continue;
    links_[link].room -= rate;
    --links_[link].unfixed;
  }
  return 1;
}

Time LinkTraffic::next_end() {
  if (!next_known_) find_next();
  return next_end_;
}

FlowId LinkTraffic::next() {
  if (!next_known_) find_next();
  return next_;
}

void LinkTraffic::find_next() {
  next_known_ = true;
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
