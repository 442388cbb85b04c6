#include "unit/lab/traffic/plain_traffic.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

namespace vma {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
/// As in `LinkShares`: each flow makes some progress, however many share a slow link.
constexpr double level_min = 1;

}  // namespace

std::size_t PlainTraffic::begin(const LinkTraffic::NewFlow& flow, Time now) {
  advance(now);
  flows_.push_back({flow, std::min(flow.path->rate_max, flow.rate_max), flow.bytes});
  find_rates();
  return flows_.size() - 1;
}

double PlainTraffic::end(std::size_t flow, Time now) {
  advance(now);
  flows_[flow].active = false;
  find_rates();
  return flows_[flow].left;
}

void PlainTraffic::pause(Time now) {
  advance(now);
  paused_ = true;
  find_rates();
}

void PlainTraffic::resume(Time now) {
  advance(now);
  paused_ = false;
  find_rates();
}

double PlainTraffic::seconds_to_end(Time now) {
  advance(now);
  double seconds = infinite;
  for (const Flow& flow : flows_)
    if (runs(flow)) seconds = std::min(seconds, flow.left / flow.rate);
  return seconds;
}

void PlainTraffic::advance(Time now) {
  const double seconds = std::chrono::duration<double>(now - now_).count();
  now_ = now;
  for (Flow& flow : flows_) {
    if (!runs(flow)) continue;
    const double bytes = std::min(flow.rate * seconds, flow.left);
    flow.left -= bytes;
    for (const LinkId link : flow.what.path->links()) carried_[link] += bytes;
  }
}

void PlainTraffic::find_rates() {
  std::size_t left = 0;
  for (Flow& flow : flows_) {
    flow.fixed = !runs(flow);
    flow.rate = 0;
    left += flow.fixed ? 0 : 1;
  }
  while (left > 0) {
    const std::vector<double> full_at = link_levels();
    double level = std::ranges::min(full_at);
    for (const Flow& flow : flows_)
      if (!flow.fixed) level = std::min(level, flow.most);
    for (Flow& flow : flows_) {
      const bool held = std::ranges::any_of(flow.what.path->links(),
                                            [&](LinkId link) { return full_at[link] <= level; });
      if (flow.fixed || (flow.most > level && !held)) continue;
      flow.rate = std::min(flow.most, level);
      flow.fixed = true;
      --left;
    }
  }
}

/// The common rate of the flows without a rate at which each link is full.
std::vector<double> PlainTraffic::link_levels() const {
  std::vector<double> room(map_.size());
  std::vector<int> unfixed(map_.size());
  for (std::size_t link = 0; link < map_.size(); ++link)
    room[link] = map_.capacity(static_cast<LinkId>(link));
  for (const Flow& flow : flows_) {
    for (const LinkId link : flow.what.path->links()) {
      room[link] -= flow.fixed ? flow.rate : 0;
      unfixed[link] += flow.fixed ? 0 : 1;
    }
  }
  for (std::size_t link = 0; link < map_.size(); ++link)
    room[link] = unfixed[link] > 0 ? std::max(room[link] / unfixed[link], level_min) : infinite;
  return room;
}

}  // namespace vma
