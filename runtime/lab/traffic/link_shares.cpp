#include "lab/traffic/link_shares.hpp"

#include <algorithm>

namespace vma {
namespace {

/// Bytes per second: rounding must not leave a flow without progress.
constexpr double level_min = 1;

}  // namespace

LinkShares::LinkShares(const LinkMap& map) : links_(map.size()) {
  for (std::size_t link = 0; link < links_.size(); ++link)
    links_[link].capacity = map.capacity(static_cast<LinkId>(link));
}

void LinkShares::open(std::uint32_t lane, const TrafficLane& state) {
  if (lanes_.size() <= lane) lanes_.resize(lane + 1);
  for (const LinkId link : state.path().links()) {
    links_[link].lanes.push_back(lane);
    links_[link].demand += state.demand();
    // A lane that was paused may have a level that no link requires any more.
    if (links_[link].may_bind() || state.level() < TrafficLane::no_level) note_change(link);
  }
}

void LinkShares::close(std::uint32_t lane, const TrafficLane& state) {
  for (const LinkId link : state.path().links()) {
    Link& each = links_[link];
    if (each.may_bind()) note_change(link);
    each.lanes.erase(std::ranges::find(each.lanes, lane));
    each.demand = each.lanes.empty() ? 0 : each.demand - state.demand();
  }
}

void LinkShares::add(const LinkPath& path, double demand) {
  for (const LinkId link : path.links()) {
    links_[link].demand += demand;
    if (links_[link].may_bind()) note_change(link);
  }
}

void LinkShares::remove(const LinkPath& path, double demand) {
  for (const LinkId link : path.links()) {
    if (links_[link].may_bind()) note_change(link);
    links_[link].demand -= demand;
  }
}

void LinkShares::note_change(LinkId link) {
  if (links_[link].changed) return;
  links_[link].changed = true;
  changed_.push_back(link);
}

std::span<const LinkShares::Level> LinkShares::find(std::vector<TrafficLane>& lanes) {
  ++pass_;
  reached_.clear();
  open_links_.clear();
  for (const LinkId link : changed_) {
    links_[link].changed = false;
    join(link);
  }
  changed_.clear();
  for (std::size_t next = 0; next < reached_.size(); ++next) {
    for (const LinkId link : lanes[reached_[next].lane].path().links())
      if (links_[link].may_bind()) join(link);
  }
  while (true) {
    const LinkId link = fullest(lanes);
    if (open_links_.empty() || links_[link].level == TrafficLane::no_level) return reached_;
    fix(link, lanes);
  }
}

void LinkShares::join(LinkId link) {
  Link& each = links_[link];
  if (each.pass == pass_) return;
  each.pass = pass_;
  each.room = each.capacity;
  each.unfixed = each.lanes.size();
  each.level_known = false;
  open_links_.push_back(link);
  for (const std::uint32_t lane : each.lanes) {
    if (lanes_[lane].pass == pass_) continue;
    lanes_[lane] = {pass_, static_cast<std::uint32_t>(reached_.size())};
    reached_.push_back({lane});
  }
}

/// The link that is full at the lowest level; the first among equals. Drops links whose lanes all
/// have a level.
LinkId LinkShares::fullest(std::vector<TrafficLane>& lanes) {
  double level = TrafficLane::no_level;
  LinkId found = 0;
  std::size_t open = 0;
  for (const LinkId link : open_links_) {
    Link& each = links_[link];
    if (each.unfixed == 0) continue;
    if (!each.level_known) each.level = find_level(each, lanes);
    each.level_known = true;
    if (open == 0 || each.level < level) {
      level = each.level;
      found = link;
    }
    open_links_[open++] = link;
  }
  open_links_.resize(open);
  return found;
}

/// The level at which the link's lanes without a level fill it. What they use is a concave function
/// of the level, made of straight pieces. Newton's method therefore ends at the right piece: each
/// step leads to a level that is too low or right, and all but the first lead upwards.
double LinkShares::find_level(Link& link, std::vector<TrafficLane>& lanes) const {
  std::size_t flows = 0;
  for (const std::uint32_t lane : link.lanes) flows += has_level(lane) ? 0 : lanes[lane].size();
  const double even = std::max(link.room / static_cast<double>(flows), level_min);
  // The last level is probably close.
  double level = link.level > 0 && link.level < TrafficLane::no_level ? link.level : even;
  for (bool upwards = false;; upwards = true) {
    TrafficLane::Split all;
    for (const std::uint32_t lane : link.lanes) {
      if (has_level(lane)) continue;
      const TrafficLane::Split split = lanes[lane].split_at(level);
      all.own += split.own;
      all.above += split.above;
    }
    const double room = link.room - all.own;
    if (all.above == 0 && room >= 0) return TrafficLane::no_level;
    const double next =
        all.above == 0 ? even : std::max(room / static_cast<double>(all.above), even);
    if (next == level || (upwards && next < level)) return level;
    level = next;
  }
}

void LinkShares::fix(LinkId link, std::vector<TrafficLane>& lanes) {
  const double level = links_[link].level;
  for (const std::uint32_t lane : links_[link].lanes) {
    if (has_level(lane)) continue;
    reached_[lanes_[lane].reached].level = level;
    const TrafficLane::Split split = lanes[lane].split_at(level);
    const double used = split.own + level * static_cast<double>(split.above);
    for (const LinkId crossed : lanes[lane].path().links()) {
      Link& each = links_[crossed];
      each.room -= used;  // Also for links that do not limit: their room is never read.
      --each.unfixed;
      each.level_known = false;
    }
  }
}

}  // namespace vma
