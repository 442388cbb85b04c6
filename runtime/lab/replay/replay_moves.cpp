#include "lab/replay/replay_moves.hpp"

#include "base/check.hpp"
#include "base/units.hpp"
#include "migrate/stops/stall_budget.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <ranges>
#include <utility>

namespace vma {
namespace {

/// Of the stall of a chunk that is alone at its gate, the part that does not depend on its bytes,
/// what the switch of one more chunk takes: 100 to 165 us of 313 on two H100
/// (docs/results/fidelity.md).
constexpr double switch_share = 0.4;

/// The additional stall of a gate at which the last device arrived `waited` after the request.
Time longer(const LateStops& late, Time waited) {
  if (waited >= late.wait) return late.longer;
  const double share = in_seconds(waited) / in_seconds(late.wait);
  return Time(static_cast<Time::rep>(share * static_cast<double>(late.longer.count())));
}

}  // namespace

ReplayMoves::ReplayMoves(const ReplayMachine& machine, const ReplayOptions& options,
                         LinkTraffic& traffic)
    : machine_(machine),
      costs_(machine.costs),
      traffic_(traffic),
      suspension_(options.stop == StopKind::suspension ? machine.suspension.value_or(Time(0))
                                                       : Time(0)),
      planned_stall_(options.stop == StopKind::suspension
                         ? GateShare::planned(options.max_stall, suspension_)
                         : GateShare::planned(options.max_stall)),
      budget_(options.stall_budget, 0) {}

ReplayMoves::Route& ReplayMoves::route_of(const AcceptedMove& move) {
  const auto [route, made] = routes_.try_emplace({move.from, move.to});
  if (made) {
    const bool between_gpus = index(move.from) < costs_.gpus() && index(move.to) < costs_.gpus();
    const RouteKey shared{PlaceId{0}, PlaceId{0}};
    route->second.line = &lines_[between_gpus ? shared : route->first];
  }
  return route->second;
}

void ReplayMoves::start(AcceptedMove move, Time now) {
  Route& route = route_of(move);
  route.waiting.push_back(&route.line->moves.emplace_back(Under{std::move(move), now}));
  ++size_;
  look_whether_ready(*route.line);
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

/// What it adds to the stall of a gate that switches others, too.
Time ReplayMoves::further_stall(const AcceptedMove& move) const {
  const Time fixed = costs_.stall_time(move.from, move.to, 0);
  const Time bytes = costs_.stall_time(move.from, move.to, move.bytes) - fixed;
  const auto switched = static_cast<Time::rep>(switch_share * static_cast<double>(fixed.count()));
  return std::max(Time(switched), bytes);
}

/// Requires: the line has a move.
std::list<ReplayMoves::Under>::iterator ReplayMoves::end_of_batch(Line& line) const {
  auto next = line.moves.begin();
  Time left = planned_stall_ - further_stall(next->move);
  for (std::size_t chunks = 1; ++next != line.moves.end(); ++chunks) {
    left -= further_stall(next->move);
    if (left < Time::zero() || chunks == GateShare::chunks_max) break;
  }
  return next;
}

void ReplayMoves::look_whether_ready(Line& line) {
  const bool was_ready = std::exchange(line.ready, false);
  if (!line.moves.empty()) {
    line.ready = std::all_of(line.moves.begin(), end_of_batch(line), std::mem_fn(&Under::copied));
  }
  if (line.ready && !was_ready) ready_.push_back(&line);
  if (!line.ready && was_ready) std::erase(ready_, &line);
}

void ReplayMoves::begin_next(Route& route, Time now) {
  if (route.first != nullptr || route.waiting.empty()) return;
  route.first = route.waiting.front();
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

std::optional<ReplayMoves::Opened> ReplayMoves::advance(Time now) {
  if (next_ready_ <= now) begin_copies(now);
  if (!gate_ || gate_->open > now) return std::nullopt;
  Opened opened;
  opened.skew = gate_->last_arrival - gate_->first_arrival;
  opened.stall = now - gate_->last_arrival;
  for (Under& under : gate_->under) opened.moves.push_back({std::move(under.move), under.began});
  budget_.spent_stall(gate_->first_arrival, now - gate_->first_arrival);
  gate_.reset();
  size_ -= opened.moves.size();
  return opened;
}

bool ReplayMoves::take_end(FlowId flow, Time now) {
  const auto copy = std::ranges::find(copies_, flow, &Copy::flow);
  if (copy == copies_.end()) return false;
  Route& route = *copy->route;
  copies_.erase(copy);
  std::exchange(route.first, nullptr)->copied = true;
  look_whether_ready(*route.line);
  begin_next(route, now);
  return true;
}

void ReplayMoves::close(std::size_t running, Time now) {
  VMART_CHECK(wants_gate(now), "there is a chunk to switch");
  Line& line = *ready_.front();
  gate_ = Gate{};
  gate_->under.splice(gate_->under.end(), line.moves, line.moves.begin(), end_of_batch(line));
  // Behind the other lines that are ready.
  line.ready = false;
  ready_.pop_front();
  look_whether_ready(line);
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
  const AcceptedMove& first = gate_->under.front().move;
  Time stall = suspension_ + costs_.stall_time(first.from, first.to, first.bytes);
  for (const Under& next :
       std::ranges::subrange(std::next(gate_->under.begin()), gate_->under.end()))
    stall += further_stall(next.move);
  gate_->last_arrival = now;
  gate_->open = now + stall + longer(machine_.late, now - gate_->asked);
}

}  // namespace vma
