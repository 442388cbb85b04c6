#include "lab/traffic/traffic_lane.hpp"

#include "base/check.hpp"
#include "base/units.hpp"

#include <algorithm>

namespace vma {
namespace {

/// Rounded up. What would be beyond the range of the clock never is.
Time later(Time from, double seconds) {
  const double nanoseconds = seconds * 1e9;
  if (!(nanoseconds < static_cast<double>((Time::max() - from).count()))) return Time::max();
  const auto whole = static_cast<Time::rep>(nanoseconds);  // `ceil` may be a call.
  return from + Time(whole + (static_cast<double>(whole) < nanoseconds ? 1 : 0));
}

}  // namespace

void TrafficLane::enter(std::uint32_t number, Time now) {
  TrafficFlow& flow = (*flows_)[number];
  const bool at_level = flow.most > level_;
  if (at_level) serve(now);
  const auto place = std::ranges::upper_bound(by_most_, flow.most, {}, &Demand::most);
  by_most_.insert(place, {flow.most, number});
  demand_.add(flow.most);
  if (flow.most <= split_level_) {
    ++split_count_;
    split_own_.add(flow.most);
  }
  flow.mark = flow.bytes;
  if (at_level) {
    limit_by_level(flow);
  } else {
    ++limited_;
    limit_by_most(flow, now);
  }
  put_back(number);
}

void TrafficLane::leave(std::uint32_t number, Time now) {
  TrafficFlow& flow = (*flows_)[number];
  const std::size_t place = place_of(number);
  by_most_.erase(by_most_.begin() + static_cast<std::ptrdiff_t>(place));
  if (place < limited_) --limited_;
  if (place < split_count_) {
    --split_count_;
    split_own_.add(-flow.most);
  }
  demand_.add(-flow.most);
  if (flow.heap != TrafficFlow::none) {
    if (flow.at_level) {
      level_ends_.remove(*flows_, number);
    } else {
      own_ends_.remove(*flows_, number);
    }
  }
  if (limited_ == by_most_.size()) serve(now);
  if (!by_most_.empty()) return;
  level_ = no_level;
  demand_ = split_own_ = {};
}

std::size_t TrafficLane::place_of(std::uint32_t number) const {
  const TrafficFlow& flow = (*flows_)[number];
  const auto place = std::ranges::partition_point(by_most_, [&](const Demand& demand) {
    return demand.most < flow.most ||
           (demand.most == flow.most && (*flows_)[demand.flow].order < flow.order);
  });
  VMART_CHECK(place != by_most_.end() && place->flow == number, "the flow is in its lane");
  return static_cast<std::size_t>(place - by_most_.begin());
}

void TrafficLane::pause(Time now) {
  paused_since_ = now;
  paused_ = true;
}

void TrafficLane::resume(Time now) {
  paused_ = false;
  stopped_ += now - paused_since_;
}

TrafficLane::Split TrafficLane::split_at(double level) {
  split_level_ = level;
  if (by_most_.size() == 1) {
    const bool own = by_most_.front().most <= level;
    split_count_ = own ? 1 : 0;
    split_own_ = ExactSum(own ? by_most_.front().most : 0);
    return {split_own_.value(), own ? std::size_t{0} : 1};
  }
  for (; split_count_ < by_most_.size() && by_most_[split_count_].most <= level; ++split_count_)
    split_own_.add(by_most_[split_count_].most);
  for (; split_count_ > 0 && by_most_[split_count_ - 1].most > level; --split_count_)
    split_own_.add(-by_most_[split_count_ - 1].most);
  if (split_count_ == 0) split_own_ = {};
  return {split_own_.value(), by_most_.size() - split_count_};
}

void TrafficLane::set_level(double level, Time now) {
  if (level == level_) return;
  serve(now);
  level_ = level;
  for (; limited_ < by_most_.size() && by_most_[limited_].most <= level; ++limited_) {
    const std::uint32_t number = by_most_[limited_].flow;
    TrafficFlow& flow = (*flows_)[number];
    const bool ended = flow.heap == TrafficFlow::none;
    if (!ended) level_ends_.remove(*flows_, number);
    flow.mark = ended ? 0 : std::max(flow.mark - served_, 0.0);
    limit_by_most(flow, now);
    if (!ended) put_back(number);
  }
  for (; limited_ > 0 && by_most_[limited_ - 1].most > level; --limited_) {
    const std::uint32_t number = by_most_[limited_ - 1].flow;
    TrafficFlow& flow = (*flows_)[number];
    const bool ended = flow.heap == TrafficFlow::none;
    const double bytes = left(flow, now);
    if (!ended) own_ends_.remove(*flows_, number);
    flow.mark = bytes;
    limit_by_level(flow);
    if (!ended) put_back(number);
  }
}

/// Requires: `mark` is its remaining bytes; it is in no heap.
void TrafficLane::limit_by_most(TrafficFlow& flow, Time now) const {
  flow.at_level = false;
  flow.since = clock(now);
  flow.end = later(flow.since, flow.mark / flow.most);
}

/// Requires: as above, and `served_` is up to date.
void TrafficLane::limit_by_level(TrafficFlow& flow) const {
  flow.at_level = true;
  flow.mark += served_;
}

double TrafficLane::served(Time clock) const {
  if (clock == served_at_)
    return served_;  // Also if no flow is at the level, which may be infinite.
  return served_ + level_ * in_seconds(clock - served_at_);
}

/// Brings `served_` up to date.
void TrafficLane::serve(Time now) {
  // Sums that are larger would round small flows to whole bytes.
  constexpr double served_max = 1e12;
  const Time at = clock(now);
  served_ = limited_ == by_most_.size() ? 0 : served(at);
  served_at_ = at;
  if (served_ <= served_max) return;
  level_ends_.change_keys([&](double mark) { return mark - served_; });
  for (std::size_t place = limited_; place < by_most_.size(); ++place)
    (*flows_)[by_most_[place].flow].mark -= served_;
  served_ = 0;
}

double TrafficLane::left(const TrafficFlow& flow, Time now) const {
  if (flow.heap == TrafficFlow::none) return 0;
  const Time at = clock(now);
  if (flow.at_level) return std::max(flow.mark - served(at), 0.0);
  if (at >= flow.end) return 0;
  return std::max(flow.mark - flow.most * in_seconds(at - flow.since), 0.0);
}

double TrafficLane::carried(Time now) const {
  double bytes = 0;
  for (const Demand& demand : by_most_) {
    const TrafficFlow& flow = (*flows_)[demand.flow];
    bytes += flow.bytes - left(flow, now);
  }
  return bytes;
}

// --- Ends

Time TrafficLane::end_at_level() const {
  if (level_ends_.empty()) return Time::max();
  return later(served_at_, std::max(level_ends_.top_key() - served_, 0.0) / level_);
}

Time TrafficLane::next_end() const {
  if (paused_) return Time::max();
  const Time end = std::min(own_ends_.empty() ? Time::max() : own_ends_.top_key(), end_at_level());
  return end > Time::max() - stopped_ ? Time::max() : end + stopped_;
}

void TrafficLane::take_ended(Time until, std::vector<std::uint32_t>& ended) {
  if (paused_) return;
  const Time at = clock(until);
  while (!own_ends_.empty() && own_ends_.top_key() <= at) {
    ended.push_back(own_ends_.top());
    own_ends_.remove(*flows_, ended.back());
  }
  while (!level_ends_.empty() && end_at_level() <= at) {
    ended.push_back(level_ends_.top());
    level_ends_.remove(*flows_, ended.back());
  }
}

void TrafficLane::put_back(std::uint32_t number) {
  const TrafficFlow& flow = (*flows_)[number];
  if (flow.at_level) {
    level_ends_.push(*flows_, number, flow.mark);
  } else {
    own_ends_.push(*flows_, number, flow.end);
  }
}

}  // namespace vma
