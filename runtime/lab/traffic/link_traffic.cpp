#include "lab/traffic/link_traffic.hpp"

#include "base/check.hpp"

#include <algorithm>

namespace vma {

LinkTraffic::LinkTraffic(const LinkMap& map) : shares_(map), carried_(map.size()) {}

FlowId LinkTraffic::begin(const LinkPath& path, double bytes, Time now, double rate_max) {
  const NewFlow flow{&path, bytes, rate_max};
  return begin(std::span(&flow, 1), now).front();
}

std::span<const FlowId> LinkTraffic::begin(std::span<const NewFlow> flows, Time now) {
  begun_.clear();
  if (flows.empty()) return begun_;
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
  for (const FlowId flow : flows) leave(static_cast<std::uint32_t>(flow));
  return left_;
}

double LinkTraffic::left(FlowId flow, Time now) {
  advance(now);
  const TrafficFlow& each = flows_[static_cast<std::size_t>(flow)];
  return lanes_[each.lane].left(each, now_);
}

void LinkTraffic::pause(Time now) {
  VMART_CHECK(!paused_, "a pause ends before the next one");
  advance(now);
  put_back_ended();  // What has ended, and has not been removed, does not end while it is paused.
  paused_ = true;
  for (const std::uint32_t lane : pausing_) {
    if (!lanes_[lane].empty()) shares_.close(lane, lanes_[lane]);
    lanes_[lane].pause(now);
    lane_changed(lane);
  }
}

void LinkTraffic::resume(Time now) {
  VMART_CHECK(paused_, "only a pause ends");
  advance(now);
  paused_ = false;
  for (const std::uint32_t lane : pausing_) {
    lanes_[lane].resume(now);
    if (!lanes_[lane].empty()) shares_.open(lane, lanes_[lane]);
    lane_changed(lane);
  }
}

double LinkTraffic::rate(FlowId flow) {
  find_rates();
  const TrafficFlow& each = flows_[static_cast<std::size_t>(flow)];
  return lanes_[each.lane].rate(each);
}

std::vector<double> LinkTraffic::carried() const {
  std::vector<double> bytes = carried_;
  for (const LaneEnd& each : lane_ends_) {
    const TrafficLane& lane = lanes_[each.lane];
    const double by_lane = lane.carried(now_);
    for (const LinkId link : lane.path().links()) bytes[link] += by_lane;
  }
  return bytes;
}

void LinkTraffic::advance(Time now) {
  VMART_CHECK(now >= now_, "virtual time never goes back");
  if (now < ended_at_) put_back_ended();
  if (now == now_) return;
  find_rates();
  now_ = now;
}

/// The number of the flow's lane, which exists from now on.
std::uint32_t LinkTraffic::lane_for(const NewFlow& flow) {
  constexpr std::uint32_t none = TrafficFlow::none;
  std::uint32_t& lane =
      lanes_of_.try_emplace(flow.path, std::array{none, none}).first->second[flow.pauses ? 1 : 0];
  if (lane != none) return lane;
  lane = static_cast<std::uint32_t>(lanes_.size());
  lanes_.emplace_back(flows_);
  end_of_lane_.push_back(none);
  if (flow.pauses) {
    pausing_.push_back(lane);
    if (paused_) lanes_.back().pause(now_);
  }
  return lane;
}

std::uint32_t LinkTraffic::enter(const NewFlow& flow) {
  VMART_CHECK(flow.path->rate_max > 0 && flow.rate_max > 0, "a path exists for the bytes");
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(flows_.size()));
    flows_.emplace_back();
  }
  const std::uint32_t number = free_.back();
  free_.pop_back();
  const std::uint32_t lane_number = lane_for(flow);
  TrafficLane& lane = lanes_[lane_number];
  const double most = std::min(flow.path->rate_max, flow.rate_max);
  flows_[number] = {.bytes = flow.bytes, .most = most, .order = begins_++, .lane = lane_number};
  ++size_;
  const bool first = lane.empty();
  if (first) lane.set_path(*flow.path);
  lane.enter(number, now_);
  if (!lane.paused()) {
    if (first) {
      shares_.open(lane_number, lane);
    } else {
      shares_.add(lane.path(), most);
    }
  }
  lane_changed(lane_number);
  return number;
}

/// Appends its remaining bytes to `left_`.
void LinkTraffic::leave(std::uint32_t number) {
  TrafficFlow& flow = flows_[number];
  TrafficLane& lane = lanes_[flow.lane];
  const double left = lane.left(flow, now_);
  left_.push_back(left);
  for (const LinkId link : lane.path().links()) carried_[link] += flow.bytes - left;
  if (!lane.paused()) {
    if (lane.size() == 1) {
      shares_.close(flow.lane, lane);
    } else {
      shares_.remove(lane.path(), flow.most);
    }
  }
  lane.leave(number, now_);
  lane_changed(flow.lane);
  flow.lane = TrafficFlow::none;
  free_.push_back(number);
  --size_;
}

void LinkTraffic::lane_changed(std::uint32_t lane) {
  next_known_ = false;
  std::uint32_t& at = end_of_lane_[lane];
  if (!lanes_[lane].empty()) {
    if (at == TrafficFlow::none) {
      at = static_cast<std::uint32_t>(lane_ends_.size());
      lane_ends_.emplace_back();
    }
    lane_ends_[at] = {lanes_[lane].next_end(), lane};
  } else if (at != TrafficFlow::none) {
    end_of_lane_[lane_ends_.back().lane] = at;
    lane_ends_[at] = lane_ends_.back();
    lane_ends_.pop_back();
    at = TrafficFlow::none;
  }
}

void LinkTraffic::find_rates() {
  if (!shares_.outdated()) return;
  if (now_ < ended_at_) put_back_ended();
  for (const auto& [lane, level] : shares_.find(lanes_)) {
    if (lanes_[lane].level() == level) continue;
    lanes_[lane].set_level(level, now_);
    lane_changed(lane);
  }
}

// --- Ends

/// Returns whether any of the flows in `ended_` is left.
bool LinkTraffic::skip_removed() {
  for (; ended_begin_ < ended_.size(); ++ended_begin_) {
    const TrafficFlow& flow = flows_[ended_[ended_begin_].flow];
    if (flow.lane != TrafficFlow::none && flow.order == ended_[ended_begin_].order) return true;
  }
  ended_.clear();
  ended_begin_ = 0;
  ended_at_ = Time::min();
  return false;
}

Time LinkTraffic::soonest_end() const {
  Time end = Time::max();
  for (const LaneEnd& lane : lane_ends_) end = std::min(end, lane.end);
  return end;
}

/// A flow without remaining bytes ends now, whatever its rate. So while flows end one after the
/// other and others take their place, no rates are computed.
void LinkTraffic::find_next_end() {
  if (!skip_removed()) {
    next_end_ = soonest_end();
    if (next_end_ > now_ && shares_.outdated()) {
      find_rates();
      next_end_ = soonest_end();
    }
    next_end_ = std::max(next_end_, now_);
  } else {
    next_end_ = std::max(ended_at_, now_);
  }
  next_known_ = true;
}

FlowId LinkTraffic::next() {
  next_end();
  if (!skip_removed()) take_ended();
  return FlowId{ended_[ended_begin_].flow};
}

/// Fills `ended_` with the flows that end at `next_end_`.
void LinkTraffic::take_ended() {
  VMART_CHECK(next_end_ < Time::max(), "a flow ends");
  taken_.clear();
  for (LaneEnd& lane : lane_ends_) {
    if (lane.end > next_end_) continue;
    lanes_[lane.lane].take_ended(next_end_, taken_);
    lane.end = lanes_[lane.lane].next_end();
  }
  for (const std::uint32_t flow : taken_) ended_.push_back({flows_[flow].order, flow});
  if (ended_.size() > 1) std::ranges::sort(ended_, {}, &Ended::order);
  ended_at_ = next_end_;
}

/// Either time does not reach `ended_at_` with these rates, or the flows end anew.
void LinkTraffic::put_back_ended() {
  for (; skip_removed(); ++ended_begin_) {
    const std::uint32_t flow = ended_[ended_begin_].flow;
    lanes_[flows_[flow].lane].put_back(flow);
    lane_changed(flows_[flow].lane);
  }
}

}  // namespace vma
