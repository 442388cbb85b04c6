#include "lab/replay/link_traffic.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vma {

LinkTraffic::LinkTraffic(const LinkMap& map) : links_(map.size()), carried_(map.size()) {
  for (std::size_t link = 0; link < links_.size(); ++link)
    links_[link].capacity = map.capacity(static_cast<LinkId>(link));
}

FlowId LinkTraffic::begin(const LinkPath& path, double bytes, Time now, double rate_max) {
  const NewFlow flow{&path, bytes, rate_max};
  return begin(std::span(&flow, 1), now).front();
}

std::span<const FlowId> LinkTraffic::begin(std::span<const NewFlow> flows, Time now) {
  begun_.clear();
  if (flows.empty()) return begun_;  // No time step here: it would change how sums are rounded.
  advance(now);
  for (const NewFlow& flow : flows) begun_.push_back(FlowId{enter(flow)});
  return begun_;
}

double LinkTraffic::end(FlowId flow, Time now) {
  return end(std::span(&flow, 1), now).front();
}

std::span<const double> LinkTraffic::end(std::span<const FlowId> flows, Time now) {
  left_.clear();
  if (flows.empty()) return left_;
  advance(now);
  for (const FlowId id : flows) {
    const auto number = static_cast<std::uint32_t>(id);
    left_.push_back(std::max(flows_[number].left, 0.0));
    leave(number);
  }
  std::erase_if(active_, [&](std::uint32_t number) { return flows_[number].path == nullptr; });
  return left_;
}

double LinkTraffic::left(FlowId flow, Time now) {
  advance(now);
  return std::max(flows_[static_cast<std::size_t>(flow)].left, 0.0);
}

double LinkTraffic::rate(FlowId flow) {
  find_rates();
  return flows_[static_cast<std::size_t>(flow)].rate;
}

void LinkTraffic::advance(Time now) {
  VMART_CHECK(now >= now_, "virtual time never goes back");
  if (now == now_) return;
  find_rates();
  const double seconds = std::chrono::duration<double>(now - now_).count();
  now_ = now;
  for (const std::uint32_t number : active_) {
    Flow& flow = flows_[number];
    const double bytes = std::min(flow.rate * seconds, std::max(flow.left, 0.0));
    flow.left -= bytes;
    for (const LinkId link : flow.path->links()) carried_[link] += bytes;
  }
}

std::uint32_t LinkTraffic::enter(const NewFlow& flow) {
  VMART_CHECK(flow.path->rate_max > 0 && flow.rate_max > 0, "a path exists for the bytes");
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
    links_[link].demand += most;
  }
  note_change(*flow.path);
  return number;
}

void LinkTraffic::leave(std::uint32_t number) {
  Flow& flow = flows_[number];
  note_change(*flow.path);
  for (const LinkId link : flow.path->links()) {
    Link& each = links_[link];
    each.flows.erase(std::ranges::find(each.flows, number));
    each.demand = each.flows.empty() ? 0 : each.demand - flow.rate_max;
  }
  flow.path = nullptr;
  free_.push_back(number);
  next_known_ = false;
}

void LinkTraffic::note_change(const LinkPath& path) {
  Change change;
  for (const LinkId link : path.links())
    if (links_[link].may_bind()) change.links[change.count++] = link;
  if (change.count > 0) changes_.push_back(change);
}

/// Processes the last change first: it determines the rates of all flows that it reaches, as if
/// rates were computed after each change. Flows that only earlier changes reach were not affected
/// later, so the rates from those changes are still right.
void LinkTraffic::find_rates() {
  if (changes_.empty()) return;
  ++pass_;
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
    join(*change);
    share();
  }
  changes_.clear();
}

/// Collects all flows without a rate in this pass that the change reaches: over its own links
/// first, then over other links that may limit flows.
void LinkTraffic::join(const Change& change) {
  joined_.clear();
  open_links_.clear();
  for (std::size_t i = 0; i < change.count; ++i)
    if (links_[change.links[i]].pass != pass_) join(change.links[i]);
  for (std::size_t next = 0; next < joined_.size(); ++next) {
    for (const LinkId link : flows_[joined_[next]].path->links())
      if (links_[link].pass != pass_ && links_[link].may_bind()) join(link);
  }
}

/// Flows that a later change gave a rate in this pass keep it, and their share of the link.
void LinkTraffic::join(LinkId link) {
  Link& each = links_[link];
  each.pass = pass_;
  each.room = each.capacity;
  each.unfixed = 0;
  open_links_.push_back(link);
  for (const std::uint32_t number : each.flows) {
    Flow& flow = flows_[number];
    if (flow.pass != pass_) {
      flow.pass = pass_;
      flow.fixed = false;
      joined_.push_back(number);
    }
    if (flow.fixed) {
      each.room -= flow.rate;
    } else {
      ++each.unfixed;
    }
  }
}

/// Raises a common rate until a flow reaches its maximum or a link is full, fixes the rates of the
/// flows concerned, and continues with the others.
void LinkTraffic::share() {
  double slowest = slowest_unfixed();
  for (std::size_t left = joined_.size(); left > 0;) {
    LinkId fullest = 0;
    const double level = std::max(next_level(fullest), 1.0);  // Rounding must not leave a flow
                                                              // without progress.
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
}

double LinkTraffic::slowest_unfixed() const {
  double slowest = std::numeric_limits<double>::infinity();
  for (const std::uint32_t number : joined_) {
    if (!flows_[number].fixed) slowest = std::min(slowest, flows_[number].rate_max);
  }
  return slowest;
}

/// The rate at which the first link is full. Drops links without unfixed flows.
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

/// Returns the number of flows that it fixed.
std::size_t LinkTraffic::fix(Flow& flow, double rate) {
  flow.rate = rate;
  flow.fixed = true;
  for (const LinkId link : flow.path->links()) {
    links_[link].room -= rate;  // Also for links that are not limiting: their room is never read.
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

/// A flow without remaining bytes ends now, whatever its rate. So while flows end one after the
/// other and others take their place, no rates are computed.
bool LinkTraffic::find_ended() {
  const auto ended =
      std::ranges::find_if(active_, [&](std::uint32_t number) { return flows_[number].left <= 0; });
  if (ended == active_.end()) return false;
  next_ = FlowId{*ended};
  next_end_ = now_;
  return true;
}

void LinkTraffic::find_next() {
  next_known_ = true;
  if (find_ended()) return;
  find_rates();
  double soonest = std::numeric_limits<double>::infinity();
  for (const std::uint32_t number : active_) {
    const Flow& flow = flows_[number];
    const double seconds = flow.left / flow.rate;
    if (seconds >= soonest) continue;
    soonest = seconds;
    next_ = FlowId{number};
  }
  // A flow that would end beyond the range of the clock never ends.
  const double nanoseconds = std::ceil(soonest * 1e9);
  next_end_ = nanoseconds < static_cast<double>((Time::max() - now_).count())
                  ? now_ + Time(static_cast<Time::rep>(nanoseconds))
                  : Time::max();
}

}  // namespace vma
