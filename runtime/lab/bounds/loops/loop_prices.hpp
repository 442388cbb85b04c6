#pragma once

#include "lab/bounds/loops/loop_graph.hpp"
#include "lab/replay/replay_machine.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace vma {

/// The cost of what no link allows.
inline constexpr double unreachable = std::numeric_limits<double>::infinity();

/// Stretches of time in which some tasks surely happen, and the resources that they use meanwhile:
/// the links, and the room of each place. A link can be busy, and a place full, for no longer than
/// the stretch. The first stretches begin at a time and hold all tasks whose head is not before it;
/// after these comes one for each device, with links only. Immutable.
class LoopWindows {
 public:
  static constexpr std::size_t begins_max = 12;

  LoopWindows(const LoopGraph& graph, const ReplayMachine& machine);

  std::size_t links() const noexcept { return links_; }
  std::size_t places() const noexcept { return places_; }
  std::size_t devices() const noexcept { return devices_; }
  /// Number of links and places.
  std::size_t parts() const noexcept { return links_ + places_; }
  /// The number of stretches that hold tasks of all devices.
  std::size_t begins() const noexcept { return begins_.size(); }
  /// The last of these that holds the task; it is in all earlier ones as well.
  std::uint32_t last_of(std::size_t task) const { return last_[task]; }
  /// Number of pairs of a stretch and one of its resources.
  std::size_t size() const noexcept { return begins() * (links_ + places_) + devices_ * links_; }
  std::size_t link_at(std::size_t begin, std::size_t link) const {
    return begin * (links_ + places_) + link;
  }
  std::size_t room_at(std::size_t begin, std::size_t place) const {
    return link_at(begin, links_ + place);
  }
  std::size_t device_link_at(std::size_t device, std::size_t link) const {
    return begins() * (links_ + places_) + device * links_ + link;
  }
  /// The time from the beginning of the trace to its end that is outside the pair's stretch.
  double outside_s(std::size_t pair) const { return outside_[pair]; }

 private:
  std::size_t links_, places_, devices_;
  std::vector<double> begins_;
  std::vector<std::uint32_t> last_;
  std::vector<double> outside_;
};

/// Weights of all that limits a loop: what a second of it costs. Any weights that are not negative,
/// and whose sum is 1 apart from `room`, give a lower bound.
struct LoopWeights {
  std::vector<double> pairs;  ///< As in `LoopWindows`.
  // Chains of tasks, each of which waits for the previous one. The time of a task in the chain is
  // that of one of its accesses, of its bytes on one of the links, of its computing, or the time
  // for which its memory at one of the places would fill that place.
  std::vector<double> accesses;    ///< By access.
  std::vector<double> task_parts;  ///< By task, and by link or place.
  double computing_s = 0;          ///< Of all these chains, with their beginnings; weighted.
  /// For a byte in the HBM of the task's device just after the task has started; by task.
  std::vector<double> room;
};

/// What one answer to some weights uses, in the same order.
struct LoopLoads {
  std::vector<double> accesses;    ///< Seconds.
  std::vector<double> task_parts;  ///< Seconds.
  std::vector<double> moved;       ///< Bytes, by stretch, source and target.
  std::vector<double> lay;         ///< Byte-seconds, by stretch and place.
  // Bytes in the HBM of a task's device: just after its start; from after then on until a later
  // task of its chain; and until before it.
  std::vector<double> lies_at, lies_after, lies_until;

  LoopLoads(const LoopGraph& graph, const LoopWindows& windows);
  void clear();
  /// Becomes (1 - share) times itself plus `share` times the other.
  void mix(const LoopLoads& other, double share);
};

/// What accesses, moves and room cost at some weights.
class LoopPrices {
 public:
  LoopPrices(const LoopGraph& graph, const ReplayMachine& machine, const LoopWindows& windows);

  void set(const LoopWeights& weights);

  /// All bytes and repetitions of the use, with its segment at the place.
  double use(const LoopUse& use, std::size_t place) const;
  /// Seconds that the use lasts at least.
  double use_seconds(const LoopUse& use, std::size_t place) const;
  /// Moves of a byte by the cheapest route. `stretch` as in `LoopWindows::last_of`.
  double move(std::size_t stretch, std::size_t from, std::size_t to) const {
    return tables_[stretch].moves[from * windows_.places() + to];
  }
  /// To another place and back.
  double round_trip(std::size_t stretch, std::size_t place) const {
    return tables_[stretch].round_trips[place];
  }
  double cheapest_move(std::size_t stretch) const { return tables_[stretch].cheapest; }
  /// A byte for a second.
  double lie(std::size_t stretch, std::size_t place) const { return tables_[stretch].lies[place]; }

  /// A byte for a second of the task. Requires: the place has a capacity.
  double lie_during(std::uint32_t task, std::size_t place) const;
  void add_lie_during(std::uint32_t task, std::size_t place, double byte_s, LoopLoads& loads) const;
  /// A byte in the HBM of the task's device just after the task has started.
  double room(std::uint32_t task) const { return weights_->room[task]; }
  /// The same, just after the starts of all tasks between two of a chain.
  double room_between(std::uint32_t first, std::uint32_t last) const {
    return room_before_[last] - room_before_[first] - room(first);
  }

  void add_use(const LoopUse& use, std::size_t place, double share, LoopLoads& loads) const;
  void add_move(std::size_t stretch, std::size_t from, std::size_t to, double bytes,
                LoopLoads& loads) const;
  /// The seconds by which each pair of stretch and resource is in use, and outside the stretch.
  std::vector<double> times(const LoopLoads& loads) const;

 private:
  struct Table {
    std::vector<double> moves, round_trips, lies;
    std::vector<std::uint8_t> next;  // The first stop on the cheapest route.
    double cheapest = 0;
  };
  void fill(Table& table, std::span<const double> link_prices);
  void price_accesses(std::span<const double> link_prices, std::size_t kind);

  const LoopGraph& graph_;
  const ReplayMachine& machine_;
  const LoopWindows& windows_;
  const LoopWeights* weights_ = nullptr;
  std::vector<Table> tables_;
  std::vector<double> reads_, writes_;  // [device][stretch][place], of a byte.
  std::vector<bool> weighted_;          // Tasks with a weight on a link.
  std::vector<double> room_before_;  // By task: sum of `room` over the earlier ones of its chain.
};

}  // namespace vma
