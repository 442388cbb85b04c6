#pragma once

#include "lab/replay/link_traffic.hpp"
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

/// Carries moves out in virtual time, as the `Mover` does: the moves of one route one after the
/// other, routes concurrently; a chunk is copied while the one before switches. The cost of a move
/// besides its copy and its stall comes before the copy. A switch requires all devices to stop: one
/// gate at a time, closed when the last device has ended its current work, and opened when the
/// stall is over. Not thread-safe.
class ReplayMoves {
 public:
  struct Ended {
    AcceptedMove move;
    Time began{0};
    Time skew{0}, stall{0};  ///< From the first arrival to the last; from then on.
  };

  /// `stall_budget`: per second; 0 means no limit. Requires: the machine outlives it.
  ReplayMoves(const ReplayMachine& machine, LinkTraffic& traffic, Time stall_budget);

  void start(AcceptedMove move, Time now);
  /// When to call `advance`; `Time::max()`: never.
  Time next() const noexcept {
    if (gate_) return std::min(gate_->open, next_ready_);
    return copied_.empty() ? next_ready_ : std::min(budget_.next_stop(Time::zero()), next_ready_);
  }
  /// Performs what is due by `now`. Returns the moves that have ended; the gate is open again for
  /// each.
  std::vector<Ended> advance(Time now);
  /// Whether `flow` is a copy of this object; then the copy has ended and the chunk waits for its
  /// switch.
  bool take_end(FlowId flow, Time now);

  /// A gate is closing or closed: no device begins anything.
  bool gate_shut() const noexcept { return gate_.has_value(); }
  /// A chunk waits for its switch, no gate is shut, and the budget allows one. `close` shuts it.
  bool wants_gate(Time now) const noexcept {
    return !gate_ && !copied_.empty() && budget_.next_stop(now) <= now;
  }
  /// Requires: `wants_gate`. `running`: devices that first have to end current work.
  void close(std::size_t running, Time now);
  /// A device has ended its current work. Requires: a gate is shut and waits for devices.
  void arrive(Time now);

  /// Moves that have not ended.
  std::size_t size() const noexcept { return size_; }

 private:
  struct Under {
    AcceptedMove move;
    Time began{0};
  };
  struct Route {
    std::deque<Under> waiting;
    std::optional<Under> first;  // Being prepared until `ready`, or being copied.
    Time ready = Time::max();
  };
  struct Gate {
    Under under;
    std::size_t missing = 0;  // Devices.
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
