#pragma once

#include "lab/traffic/link_traffic.hpp"
#include "lab/replay/replay_machine.hpp"
#include "migrate/gates/stall_budget.hpp"
#include "placement/planning/planned_move.hpp"

#include <vma/snapshot.hpp>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace vma {

/// Carries out moves in virtual time, like the `Mover`: one at a time per route, with routes in
/// parallel; a chunk is copied while the previous one switches. The cost of a move other than its
/// copy and stall precedes the copy. A switch stops all devices with one gate at a time, which
/// closes when the last device has ended its current work, and opens when the stall is over. Not
/// thread-safe.
class ReplayMoves {
 public:
  struct Ended {
    AcceptedMove move;
    Time began{0};
    Time skew{0}, stall{0};  ///< From the first arrival to the last; from the last arrival until
                             ///< the gate opens.
  };

  /// `stall_budget` is per second; 0: no limit. Requires: the references outlive it.
  ReplayMoves(const ReplayMachine& machine, LinkTraffic& traffic, Time stall_budget);

  void start(AcceptedMove move, Time now);
  /// When to call `advance`, seen from `now`; `Time::max()`: never.
  Time next(Time now) const noexcept {
    if (gate_) return std::min(gate_->open, next_ready_);
    return copied_.empty() ? next_ready_ : std::min(budget_.next_stop(now), next_ready_);
  }
  /// Does what is due by `now`. Returns the moves that have ended; their gates are open again.
  std::vector<Ended> advance(Time now);
  /// Returns whether `flow` is a copy of one of its moves. If so, the copy has ended, and the chunk
  /// waits for its switch.
  bool take_end(FlowId flow, Time now);

  /// Whether a gate is closing or closed: no device begins anything.
  bool gate_shut() const noexcept { return gate_.has_value(); }
  /// Whether `close` is due: a chunk waits for its switch, no gate is closed, and the budget allows
  /// one.
  bool wants_gate(Time now) const noexcept {
    return !gate_ && !copied_.empty() && budget_.next_stop(now) <= now;
  }
  /// Closes a gate. Requires: `wants_gate`. `running`: the number of devices that first have to end
  /// their current work.
  void close(std::size_t running, Time now);
  /// From now on, gates may overdraw the stall budget by so much.
  void allow_ahead(Time stall) { budget_.allow_ahead(stall); }
  /// A device has ended its current work. Requires: a closing gate waits for devices.
  void arrive(Time now);

  /// Number of moves that have not ended.
  std::size_t size() const noexcept { return size_; }

 private:
  struct Under {
    AcceptedMove move;
    Time began{0};
  };
  struct Route {
    std::deque<Under> waiting;
    std::optional<Under> first;  // In preparation until `ready`, then being copied.
    Time ready = Time::max();
  };
  struct Gate {
    Under under;
    std::size_t missing = 0;  // Devices that have not arrived.
    Time asked{0}, first_arrival{0}, last_arrival{0};
    Time open = Time::max();
  };
  using RouteKey = std::pair<PlaceId, PlaceId>;
  struct Copy {
    FlowId flow{};
    Route* route = nullptr;
  };

  void begin_next(Route& route, Time now);
  void begin_copies(Time now);
  Time preparation(const AcceptedMove& move) const;
  void all_arrived(Time now);

  const ReplayMachine& machine_;
  const MachineCosts& costs_;  // Of `machine_`.
  LinkTraffic& traffic_;
  std::map<RouteKey, Route> routes_;
  Time next_ready_ = Time::max();  // The smallest `ready` of the routes.
  std::vector<Copy> copies_;       // In progress.
  std::deque<Under> copied_;
  std::optional<Gate> gate_;
  StallBudget budget_;
  std::size_t size_ = 0;
};

}  // namespace vma
