#include "lab/link_traffic.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cmath>

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
  const bool is_alone = alone(path);
  for (const LinkId link : path.links()) ++links_[link].flows;
  Flow& flow = flows_[number];
  const double most = std::min(path.rate_max, rate_max);
  flow = {&path, bytes, most, most, false, false};
  active_.push_back(number);
  if (is_alone) {
    for (const LinkId link : path.links()) flow.rate = std::min(flow.rate, map_.capacity(link));
  } else {
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
  for (const LinkId link : path.links()) --links_[link].flows;
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

bool LinkTraffic::alone(const LinkPath& path) const {
  return std::ranges::all_of(path.links(), [&](LinkId link) { return links_[link].flows == 0; });
}

/// Finds every flow that a change on the path can reach: over the links of those that share one.
void LinkTraffic::join(const LinkPath& path) {
  joined_.clear();
  for (const std::uint32_t number : active_) flows_[number].joined = false;
  for (Link& link : links_) link.joined = false;
  for (const LinkId link : path.links()) links_[link].joined = true;
  for (bool grew = true; grew;) {
    grew = false;
    for (const std::uint32_t number : active_) {
      Flow& flow = flows_[number];
      const std::span<const LinkId> own = flow.path->links();
      if (flow.joined ||
          std::ranges::none_of(own, [&](LinkId link) { return links_[link].joined; })) {
        continue;
      }
      flow.joined = grew = true;
      joined_.push_back(number);
      for (const LinkId link : own) links_[link].joined = true;
    }
  }
}

/// The flow that is offered least gets that, and leaves what it cannot take to the others; and so
/// on with these.
void LinkTraffic::share() {
  for (const std::uint32_t number : joined_) {
    flows_[number].fixed = false;
    for (const LinkId link : flows_[number].path->links()) {
      links_[link].room = map_.capacity(link);
      links_[link].unfixed = links_[link].flows;
    }
  }
  for (std::size_t left = joined_.size(); left > 0; --left) {
    Flow* least = nullptr;
    double least_offer = 0;
    for (const std::uint32_t number : joined_) {
      Flow& flow = flows_[number];
      if (flow.fixed) continue;
      const double offered = offer(flow);
      if (least != nullptr && offered >= least_offer) continue;
      least = &flow;
      least_offer = offered;
    }
    least->fixed = true;
    least->rate = least_offer;
    for (const LinkId link : least->path->links()) {
      links_[link].room -= least_offer;
      --links_[link].unfixed;
    }
  }
}

double LinkTraffic::offer(const Flow& flow) const {
  double offered = flow.rate_max;
  for (const LinkId link : flow.path->links())
    offered = std::min(offered, links_[link].room / links_[link].unfixed);
  return std::max(offered, 1.0);  // Rounding leaves nobody standing.
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
