#pragma once

#include "lab/traffic/link_traffic.hpp"
#include "lab/replay/replay_machine.hpp"
#include "lab/replay/replay_options.hpp"
#include "migrate/stops/stall_budget.hpp"
#include "placement/planning/planned_move.hpp"

#include <vma/snapshot.hpp>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace vma {

/// Carries out moves in virtual time, like the `Migrator`: one copy at a time per route, with
/// routes in parallel; chunks are copied while earlier ones switch. The cost of a move other than
/// its copy and stall precedes the copy. A switch stops all devices with one gate at a time, which
/// closes when the last device has ended its current work, and opens when the stall is over.
///
/// A gate switches several chunks, as many as the mover would plan for it (`GateShare`): moves
/// between GPUs share gates, whatever their route, and so do those of one route to or from the
/// host. The first takes the stall that it has alone; each further one takes the share of that
/// which its switch takes, or its bytes' part of the stall if that is longer, since it settles
/// while the one before it is switched. Not thread-safe.
/// One owner: a move, its route, its gate and the budget change in one step.
class ReplayMoves {
 public:
  struct Ended {
    AcceptedMove move;
    Time began{0};
  };
  /// A gate that has opened.
  struct Opened {
    std::vector<Ended> moves;
    Time skew{0}, stall{0};  ///< From the first arrival to the last; from the last arrival until
                             ///< the gate opens.
  };

  /// Requires: the references outlive it.
  ReplayMoves(const ReplayMachine& machine, const ReplayOptions& options, LinkTraffic& traffic);

  void start(AcceptedMove move, Time now);
  /// When to call `advance`, seen from `now`; `Time::max()`: never.
  Time next(Time now) const noexcept {
    if (gate_) return std::min(gate_->open, next_ready_);
    return ready_.empty() ? next_ready_ : std::min(budget_.next_stop(now), next_ready_);
  }
  /// Does what is due by `now`. Returns the gate that opens now, if one does.
  std::optional<Opened> advance(Time now);
  /// Returns whether `flow` is a copy of one of its moves. If so, the copy has ended, and the chunk
  /// waits for its switch.
  bool take_end(FlowId flow, Time now);

  /// Whether a gate is closing or closed: no device begins anything.
  bool gate_shut() const noexcept { return gate_.has_value(); }
  /// Whether `close` is due: chunks wait for their switch, no gate is closed, and the budget allows
  /// one.
  bool wants_gate(Time now) const noexcept {
    return !gate_ && !ready_.empty() && budget_.next_stop(now) <= now;
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
  using RouteKey = std::pair<PlaceId, PlaceId>;
  struct Under {
    AcceptedMove move;
    Time began{0};
    bool copied = false;
  };
  /// Moves that may share gates, in the order in which they began.
  struct Line {
    std::list<Under> moves;
    bool ready = false;  // The moves of its next gate have been copied.
  };
  struct Route {
    Line* line = nullptr;
    std::deque<Under*> waiting;
    Under* first = nullptr;  // In preparation until `ready`, then being copied.
    Time ready = Time::max();
  };
  struct Gate {
    std::list<Under> under;
    std::size_t missing = 0;  // Devices that have not arrived.
    Time asked{0}, first_arrival{0}, last_arrival{0};
    Time open = Time::max();
  };
  struct Copy {
    FlowId flow{};
    Route* route = nullptr;
  };

  Route& route_of(const AcceptedMove& move);
  void begin_next(Route& route, Time now);
  void begin_copies(Time now);
  Time preparation(const AcceptedMove& move) const;
  Time further_stall(const AcceptedMove& move) const;
  std::list<Under>::iterator end_of_batch(Line& line) const;
  void look_whether_ready(Line& line);
  void all_arrived(Time now);

  const ReplayMachine& machine_;
  const MachineCosts& costs_;  // Of `machine_`.
  LinkTraffic& traffic_;
  const Time suspension_;     // What each stop takes beside its switches; 0: gates stop devices.
  const Time planned_stall_;  // Of the chunks that share a gate.
  std::map<RouteKey, Route> routes_;
  std::map<RouteKey, Line> lines_;  // That between GPUs, at those places; by their routes, others.
  std::deque<Line*> ready_;         // In the order in which they became so.
  Time next_ready_ = Time::max();   // The smallest `ready` of the routes.
  std::vector<Copy> copies_;        // In progress.
  std::optional<Gate> gate_;
  StallBudget budget_;
  std::size_t size_ = 0;
};

}  // namespace vma
