#include "lab/replay/replay_moves.hpp"

#include "base/check.hpp"
#include "base/units.hpp"

#include <algorithm>

namespace vma {
namespace {

/// The additional stall of a gate at which the last device arrived `waited` after the request.
Time longer(const LateStops& late, Time waited) {
  if (waited >= late.wait) return late.longer;
  const double share = in_seconds(waited) / in_seconds(late.wait);
  return Time(static_cast<Time::rep>(share * static_cast<double>(late.longer.count())));
}

}  // namespace

ReplayMoves::ReplayMoves(const ReplayMachine& machine, LinkTraffic& traffic, Time stall_budget)
    : machine_(machine), costs_(machine.costs), traffic_(traffic), budget_(stall_budget, 0) {}

void ReplayMoves::start(AcceptedMove move, Time now) {
  Route& route = routes_[{move.from, move.to}];
  route.waiting.push_back({std::move(move), now});
  ++size_;
  begin_next(route, now);
}

/// The cost other than copy and stall.
Time ReplayMoves::preparation(const AcceptedMove& move) const {
  const double copy = static_cast<double>(move.bytes) / costs_.copy_rate(move.from, move.to);
  const Time rest = costs_.move_time(move.from, move.to, move.bytes) -
                    std::chrono::duration_cast<Time>(std::chrono::duration<double>(copy)) -
                    costs_.stall_time(move.from, move.to, move.bytes);
  return std::max(rest, Time::zero());
}

void ReplayMoves::begin_next(Route& route, Time now) {
  if (route.first || route.waiting.empty()) return;
  route.first = std::move(route.waiting.front());
  route.waiting.pop_front();
  route.ready = now + preparation(route.first->move);
  next_ready_ = std::min(next_ready_, route.ready);
}

void ReplayMoves::begin_copies(Time now) {
  next_ready_ = Time::max();
  for (auto& [key, route] : routes_) {
    if (route.ready <= now) {
      route.ready = Time::max();
      const AcceptedMove& move = route.first->move;
      copies_.push_back({traffic_.begin(machine_.links.copy(move.from, move.to),
                                        static_cast<double>(move.bytes), now),
                         &route});
    }
    next_ready_ = std::min(next_ready_, route.ready);
  }
}

std::vector<ReplayMoves::Ended> ReplayMoves::advance(Time now) {
  if (next_ready_ <= now) begin_copies(now);
  std::vector<Ended> ended;
  if (gate_ && gate_->open <= now) {
    ended.push_back({std::move(gate_->under.move), gate_->under.began,
                     gate_->last_arrival - gate_->first_arrival, now - gate_->last_arrival});
    budget_.spent_stall(gate_->first_arrival, now - gate_->first_arrival);
    gate_.reset();
    --size_;
  }
  return ended;
}

bool ReplayMoves::take_end(FlowId flow, Time now) {
  const auto copy = std::ranges::find(copies_, flow, &Copy::flow);
  if (copy == copies_.end()) return false;
  Route& route = *copy->route;
  copies_.erase(copy);
  copied_.push_back(std::move(*route.first));
  route.first.reset();
  begin_next(route, now);
  return true;
}

void ReplayMoves::close(std::size_t running, Time now) {
  VMART_CHECK(wants_gate(now), "there is a chunk to switch");
  gate_ = Gate{};
  gate_->under = std::move(copied_.front());
  copied_.pop_front();
  gate_->asked = now;
  gate_->missing = running;
  // If no device is running, all are stopped from the start.
  gate_->first_arrival = running == 0 ? now : Time::max();
  if (running == 0) all_arrived(now);
}

void ReplayMoves::arrive(Time now) {
  VMART_CHECK(gate_ && gate_->missing > 0, "the gate waits for at least one stream");
  gate_->first_arrival = std::min(gate_->first_arrival, now);
  if (--gate_->missing == 0) all_arrived(now);
}

void ReplayMoves::all_arrived(Time now) {
  const AcceptedMove& move = gate_->under.move;
  gate_->last_arrival = now;
  gate_->open = now + costs_.stall_time(move.from, move.to, move.bytes) +
                longer(machine_.late, now - gate_->asked);
}

}  // namespace vma
