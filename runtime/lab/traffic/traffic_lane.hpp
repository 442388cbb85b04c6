#pragma once

#include "lab/traffic/flow_heap.hpp"
#include "lab/traffic/link_map.hpp"

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace vma {

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
  struct Wish {
    double most;
    std::uint32_t flow;
  };

  Time clock(Time now) const { return (paused_ ? paused_since_ : now) - stood_; }
  double served(Time clock) const;
  std::size_t place_of(std::uint32_t flow) const;
  void serve(Time now);
  void limit_by_most(TrafficFlow& flow, Time now) const;
  void limit_by_level(TrafficFlow& flow) const;
  Time end_at_level() const;

  std::vector<TrafficFlow>* flows_;
  LinkPath path_;
  std::vector<Wish> by_most_;  // In the order of maximum rates, then of their beginning.
  std::size_t limited_ = 0;    // How many of them get their maximum.
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
  Time paused_since_{0}, stood_{0};
};

}  // namespace vma
