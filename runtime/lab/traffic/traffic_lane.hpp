#pragma once

#include "lab/traffic/link_map.hpp"

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace vma {

/// A binary heap of flows with the smallest key on top, from which any flow can be removed. `Flow`
/// has a member `heap` that stores its position; `none` while it is in no heap. Not thread-safe.
template <typename Key, typename Flow>
class FlowHeap {
 public:
  static constexpr std::uint32_t none = UINT32_MAX;

  bool empty() const noexcept { return entries_.empty(); }
  Key top_key() const { return entries_.front().key; }
  std::uint32_t top() const { return entries_.front().flow; }

  void push(std::vector<Flow>& flows, std::uint32_t flow, Key key) {
    entries_.push_back({key, flow});
    rise(flows, entries_.size() - 1);
  }
  /// Requires: the flow is in this heap.
  void remove(std::vector<Flow>& flows, std::uint32_t flow) {
    const std::size_t hole = flows[flow].heap;
    flows[flow].heap = none;
    const Entry last = entries_.back();
    entries_.pop_back();
    if (hole == entries_.size()) return;
    entries_[hole] = last;
    sink(flows, rise(flows, hole));
  }
  /// Requires: `change` keeps the order of all keys.
  template <typename Change>
  void change_keys(Change&& change) {
    for (Entry& entry : entries_) entry.key = change(entry.key);
  }

 private:
  struct Entry {
    Key key;
    std::uint32_t flow;
  };

  /// Both move the entry at `place`, and return where it is then.
  std::size_t rise(std::vector<Flow>& flows, std::size_t place) {
    const Entry entry = entries_[place];
    for (; place > 0; place = (place - 1) / 2) {
      const Entry& above = entries_[(place - 1) / 2];
      if (above.key <= entry.key) break;
      put(flows, place, above);
    }
    return put(flows, place, entry);
  }
  std::size_t sink(std::vector<Flow>& flows, std::size_t place) {
    const Entry entry = entries_[place];
    for (std::size_t below = 2 * place + 1; below < entries_.size(); below = 2 * place + 1) {
      if (below + 1 < entries_.size() && entries_[below + 1].key < entries_[below].key) ++below;
      if (entries_[below].key >= entry.key) break;
      put(flows, place, entries_[below]);
      place = below;
    }
    return put(flows, place, entry);
  }
  std::size_t put(std::vector<Flow>& flows, std::size_t place, const Entry& entry) {
    entries_[place] = entry;
    flows[entry.flow].heap = static_cast<std::uint32_t>(place);
    return place;
  }

  std::vector<Entry> entries_;
};

/// A flow in progress.
struct TrafficFlow {
  static constexpr std::uint32_t none = UINT32_MAX;

  double bytes = 0;
  double most = 0;  ///< It never gets more bytes per second.
  /// With the rate `most`: its remaining bytes at `since`. With the lane's level: the value of
  /// `served_` at which it ends.
  double mark = 0;
  Time since{0}, end{0};  ///< With the rate `most`; both in the lane's time.
  std::uint64_t order = 0;
  std::uint32_t lane = none;  ///< None: it has been removed.
  std::uint32_t heap = none;  ///< None: it is known to have ended.
  bool at_level = false;      ///< It gets the lane's level; otherwise its own maximum.
};

/// A sum that forgets nothing when large terms come and go (compensated: Neumaier 1974).
class ExactSum {
 public:
  ExactSum() = default;
  explicit ExactSum(double term) : high_(term) {}
  void add(double term) {
    const double sum = high_ + term;
    const double part = sum - high_;
    low_ += (high_ - (sum - part)) + (term - part);
    high_ = sum;
  }
  double value() const { return high_ + low_; }

 private:
  double high_ = 0, low_ = 0;
};

/// The flows over one path. Those that want more than the lane's level get exactly that level, so
/// they share a virtual time: the bytes that each of them has got. A change of the level therefore
/// costs nothing for flows that stay on the same side of it. A paused lane stops its own time, so a
/// pause costs nothing for a flow either. Not thread-safe.
/// One owner: level, virtual time and ends of one lane, which each new level changes together.
class TrafficLane {
 public:
  static constexpr double no_level = std::numeric_limits<double>::infinity();

  /// Requires: `flows` outlives it.
  explicit TrafficLane(std::vector<TrafficFlow>& flows) : flows_(&flows) {}

  /// Requires: the lane is empty.
  void set_path(const LinkPath& path) { path_ = path; }
  const LinkPath& path() const noexcept { return path_; }
  bool empty() const noexcept { return by_most_.empty(); }
  std::size_t size() const noexcept { return by_most_.size(); }
  /// The sum of the flows' maximum rates.
  double demand() const { return demand_.value(); }

  /// Requires: `most`, `bytes` and `order` of the flow are set.
  void enter(std::uint32_t flow, Time now);
  void leave(std::uint32_t flow, Time now);
  bool paused() const noexcept { return paused_; }
  void pause(Time now);
  void resume(Time now);

  /// What the flows would get at a level: `own` in total for those that want no more, and the level
  /// for each of the `above` others.
  struct Split {
    double own = 0;
    std::size_t above = 0;
  };
  /// Fast if the level is close to that of the last call.
  Split split_at(double level);
  void set_level(double level, Time now);
  double level() const noexcept { return level_; }

  double rate(const TrafficFlow& flow) const {
    return paused_ ? 0 : flow.at_level ? level_ : flow.most;
  }
  double left(const TrafficFlow& flow, Time now) const;
  /// Bytes that the flows in progress have transferred.
  double carried(Time now) const;

  /// When the next flow ends at the current rates, rounded up; `Time::max()`: never.
  Time next_end() const;
  /// Appends the flows that end by then, in any order. They stay in the lane.
  void take_ended(Time until, std::vector<std::uint32_t>& ended);
  /// Undoes `take_ended` for a flow: if it has ended, it ends at once.
  void put_back(std::uint32_t flow);

 private:
  struct Demand {
    double most;
    std::uint32_t flow;
  };

  Time clock(Time now) const { return (paused_ ? paused_since_ : now) - stopped_; }
  double served(Time clock) const;
  std::size_t place_of(std::uint32_t flow) const;
  void serve(Time now);
  void limit_by_most(TrafficFlow& flow, Time now) const;
  void limit_by_level(TrafficFlow& flow) const;
  Time end_at_level() const;

  std::vector<TrafficFlow>* flows_;
  LinkPath path_;
  std::vector<Demand> by_most_;  // In the order of maximum rates, then of their beginning.
  std::size_t limited_ = 0;      // How many of them get their maximum.
  double level_ = no_level;
  double served_ = 0;  // Bytes that each flow at the level had got at `served_at_`.
  Time served_at_{0};
  FlowHeap<Time, TrafficFlow> own_ends_;
  FlowHeap<double, TrafficFlow> level_ends_;
  ExactSum demand_;
  double split_level_ = no_level;  // Of the last `split_at`, with its result.
  std::size_t split_count_ = 0;
  ExactSum split_own_;
  bool paused_ = false;
  Time paused_since_{0}, stopped_{0};
};

}  // namespace vma
