#include "lab/bounds/loops/segment_path.hpp"

#include <algorithm>

namespace vma {
SegmentPath::SegmentPath(const LoopGraph& graph, const ReplayMachine& machine,
                         const LoopWindows& windows, const LoopPrices& prices)
    : graph_(graph),
      machine_(machine),
      prices_(prices),
      windows_(windows),
      places_(windows.places()),
      now_(places_),
      between_(places_),
      next_(places_),
      from_(places_) {}

double SegmentPath::operator()(const LoopSegment& segment, LoopLoads& loads) {
  double alone = 0;
  bool all_ordered = true;
  for (const LoopUse& use : graph_.uses_of(segment)) {
    if (use.ordered) continue;
    all_ordered = false;
    const std::size_t place = best_place(use);
    alone += place < places_ ? prices_.use(use, place) : unreachable;
  }
  const double in_order = walk(segment) + alone;
  if (!all_ordered && segment.begin_places != 0) {
    const Visits visits = fewest_visits(segment);
    if (visits.cost > in_order) {
      if (visits.cost < unreachable) add_visits(segment, visits, loads);
      return visits.cost;
    }
  }
  if (in_order == unreachable) return in_order;
  for (const LoopUse& use : graph_.uses_of(segment))
    if (!use.ordered) prices_.add_use(use, best_place(use), 1, loads);
  if (!steps_.empty()) trace_back(segment, loads);
  return in_order;
}

/// The cheapest path through the ordered uses.
double SegmentPath::walk(const LoopSegment& segment) {
  find_steps(segment);
  if (steps_.empty()) return 0;
  step_costs_.resize(steps_.size() * places_);
  cells_.resize(steps_.size() * places_);
  for (std::size_t place = 0; place < places_; ++place) {
    const bool may = (segment.begin_places >> place & 1) != 0;
    now_[place] = may && machine_.places[place].capacity_bytes > 0 ? 0 : unreachable;
  }
  for (std::size_t step = 0; step < steps_.size(); ++step) {
    const auto costs = std::span(step_costs_).subspan(step * places_, places_);
    price(steps_[step], segment, costs);
    advance(steps_[step], costs, segment.bytes);
  }
  return *std::ranges::min_element(now_);
}

/// The number of places if there is none.
std::size_t SegmentPath::best_place(const LoopUse& use) const {
  double least = unreachable;
  std::size_t best = places_;
  for (std::size_t place = 0; place < places_; ++place) {
    if (machine_.places[place].capacity_bytes == 0) continue;
    const double cost = prices_.use(use, place);
    if (cost >= least) continue;
    least = cost;
    best = place;
  }
  return best;
}

/// With no move the segment is at one place, with one move at two, and more moves cost at least
/// two. A use during a move is split between places, which costs no less than the cheaper one.
SegmentPath::Visits SegmentPath::fewest_visits(const LoopSegment& segment) {
  const auto uses = graph_.uses_of(segment);
  const bool anywhere = segment.begin_places == ~std::uint64_t{0};
  visits_stretch_ = anywhere ? UINT32_MAX : 0;
  use_costs_.assign(uses.size() * places_, unreachable);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    visits_stretch_ = std::min(visits_stretch_, windows_.last_of(uses[i].task));
    for (std::size_t place = 0; place < places_; ++place)
      if (machine_.places[place].capacity_bytes > 0)
        use_costs_[i * places_ + place] = prices_.use(uses[i], place);
  }
  Visits best;
  best.everywhere = true;
  best.cost = 2 * prices_.cheapest_move(visits_stretch_) * segment.bytes;
  for (std::size_t i = 0; i < uses.size(); ++i)
    best.cost += *std::min_element(&use_costs_[i * places_], &use_costs_[i * places_] + places_);
  for (std::size_t first = 0; first < places_; ++first) {
    if ((segment.begin_places >> first & 1) == 0) continue;
    for (std::size_t second = 0; second < places_; ++second) {
      double cost = prices_.move(visits_stretch_, first, second) * segment.bytes;
      for (std::size_t i = 0; i < uses.size() && cost < best.cost; ++i)
        cost += std::min(use_costs_[i * places_ + first], use_costs_[i * places_ + second]);
      if (cost < best.cost) best = {cost, first, second, false};
    }
  }
  return best;
}

void SegmentPath::add_visits(const LoopSegment& segment, const Visits& visits,
                             LoopLoads& loads) const {
  const auto uses = graph_.uses_of(segment);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const double* const costs = &use_costs_[i * places_];
    std::size_t place = costs[visits.second] < costs[visits.first] ? visits.second : visits.first;
    if (visits.everywhere)
      place = static_cast<std::size_t>(std::min_element(costs, costs + places_) - costs);
    prices_.add_use(uses[i], place, 1, loads);
  }
  if (!visits.everywhere)
    prices_.add_move(visits_stretch_, visits.first, visits.second, segment.bytes, loads);
}

void SegmentPath::find_steps(const LoopSegment& segment) {
  steps_.clear();
  const auto uses = graph_.uses_of(segment);
  const bool anywhere = segment.begin_places == ~std::uint64_t{0};
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const LoopUse& use = uses[i];
    if (!use.ordered) continue;
    const LoopTask& task = graph_.tasks[use.task];
    if (steps_.empty() || steps_.back().task != use.task) {
      Step step;
      step.first = i;
      step.task = use.task;
      step.units = use.visits;
      step.stretch = anywhere ? windows_.last_of(use.task) : 0;
      step.room = prices_.room(use.task);
      if (!steps_.empty()) {
        const LoopTask& last = graph_.tasks[steps_.back().task];
        step.stretch = windows_.last_of(steps_.back().task);
        step.same_chain = last.chain == task.chain;
        if (step.same_chain) {
          step.gap_s = task.chain_begin_s - last.chain_begin_s - last.compute_s;
          step.gap_room = prices_.room_between(steps_.back().task, use.task);
        }
      }
      steps_.push_back(step);
    }
    Step& step = steps_.back();
    step.last = i + 1;
    step.units = std::min(step.units, use.visits);
  }
  for (Step& step : steps_) {
    step.gap_s = std::max(step.gap_s, 0.0);
    step.gap_room = std::max(step.gap_room, 0.0);
    step.lies_s = graph_.tasks[step.task].compute_s * (1 - 1 / step.units);
    step.units -= 1;
  }
}

/// The costs of the step while the segment stays at each place, but for the price when it starts.
void SegmentPath::price(Step& step, const LoopSegment& segment, std::span<double> costs) const {
  const auto uses = graph_.uses_of(segment);
  find_spoiled(step, segment.bytes);
  step.best = unreachable;
  for (std::size_t place = 0; place < places_; ++place) {
    costs[place] = unreachable;
    if (machine_.places[place].capacity_bytes == 0) continue;
    costs[place] = prices_.lie_during(step.task, place) * step.lies_s * segment.bytes;
    for (std::size_t i = step.first; i < step.last; ++i)
      if (uses[i].ordered) costs[place] += prices_.use(uses[i], place);
    if (costs[place] < step.best) {
      step.best = costs[place];
      step.best_at = place;
    }
  }
}

/// A byte, at the place from the end of the previous step to the start of this one.
double SegmentPath::lie_between(const Step& step, std::size_t place) const {
  const bool own = place == graph_.tasks[step.task].device;
  return prices_.lie(step.stretch, place) * step.gap_s + (own ? step.gap_room : 0);
}

void SegmentPath::advance(const Step& step, std::span<const double> costs, double bytes) {
  const auto row = static_cast<std::size_t>(&step - steps_.data()) * places_;
  for (std::size_t at = 0; at < places_; ++at) {
    between_[at] = unreachable;
    for (std::size_t from = 0; from < places_; ++from) {
      const double cost = now_[from] + prices_.move(step.stretch, from, at) * bytes;
      if (cost >= between_[at]) continue;
      between_[at] = cost;
      from_[at] = static_cast<std::uint8_t>(from);
    }
    if (&step != steps_.data()) between_[at] += lie_between(step, at) * bytes;
  }
  for (std::size_t to = 0; to < places_; ++to) {
    next_[to] = unreachable;
    Cell& cell = cells_[row + to];
    const bool own = to == graph_.tasks[step.task].device;
    const double stay = costs[to] + (own ? step.room * bytes : 0);
    for (std::size_t at = 0; at < places_; ++at) {
      const double staying = between_[at] + prices_.move(step.stretch, at, to) * bytes + stay;
      const double moves =
          at == to ? prices_.round_trip(step.stretch, to) : prices_.move(step.stretch, at, to);
      const double moving = between_[at] + with_moves(step, moves * bytes);
      const double cost = std::min(staying, moving);
      if (cost >= next_[to]) continue;
      next_[to] = cost;
      cell = {from_[at], static_cast<std::uint8_t>(at), staying <= moving};
    }
  }
  now_ = next_;
}

/// The share of the step's cost that remains if these moves happen during it.
double SegmentPath::move_share(const Step& step, double moves) const {
  if (step.units <= 0 || step.best > step.units * step.spoiled) return 0;
  const double times = step.spoiled > 0 ? 1 + moves / step.spoiled : 1;
  return std::max(1 - times / step.units, 0.0);
}

/// The least cost of the step with moves during it, of which there may be any number at any time.
/// Each spoils at most one unit of the step: in all others the segment stays at one place. After
/// the last visit there may be less of a unit, so that one move spoils none.
double SegmentPath::with_moves(const Step& step, double moves) const {
  if (moves == unreachable || step.units <= 0) return moves;
  if (step.best > step.units * step.spoiled)
    return std::max(moves, (step.units - 1) * step.spoiled);
  return moves + move_share(step, moves) * step.best;
}

/// In a unit with a move, the segment lies at one of the move's ends all the time, or moves more.
void SegmentPath::find_spoiled(Step& step, double bytes) const {
  const double unit_s = step.units > 0 ? step.lies_s / step.units : 0;
  step.spoiled = unreachable;
  for (std::size_t from = 0; from < places_; ++from) {
    for (std::size_t to = 0; to < places_; ++to) {
      if (from == to || machine_.places[from].capacity_bytes == 0) continue;
      if (machine_.places[to].capacity_bytes == 0) continue;
      const double lie =
          std::min(prices_.lie_during(step.task, from), prices_.lie_during(step.task, to));
      const double cost = (prices_.move(step.stretch, from, to) + lie * unit_s) * bytes;
      if (cost >= step.spoiled) continue;
      step.spoiled = cost;
      step.spoiled_from = from;
      step.spoiled_to = to;
    }
  }
}

/// What a step uses if all of its units have a move.
void SegmentPath::add_spoiled(const Step& step, double bytes, LoopLoads& loads) const {
  const double units = step.units - 1;
  if (units <= 0 || step.best <= step.units * step.spoiled) return;
  const std::size_t from = step.spoiled_from, to = step.spoiled_to;
  const bool ends = prices_.lie_during(step.task, to) < prices_.lie_during(step.task, from);
  prices_.add_move(step.stretch, from, to, units * bytes, loads);
  prices_.add_lie_during(step.task, ends ? to : from, units * bytes * step.lies_s / step.units,
                         loads);
}

void SegmentPath::trace_back(const LoopSegment& segment, LoopLoads& loads) {
  const auto uses = graph_.uses_of(segment);
  const double bytes = segment.bytes;
  auto to = static_cast<std::size_t>(std::ranges::min_element(now_) - now_.begin());
  for (std::size_t number = steps_.size(); number-- > 0;) {
    const Step& step = steps_[number];
    const Cell& cell = cells_[number * places_ + to];
    const std::size_t device = graph_.tasks[step.task].device;
    prices_.add_move(step.stretch, cell.between, to, bytes, loads);
    if (number > 0) {
      loads.lay[step.stretch * places_ + cell.between] += bytes * step.gap_s;
      if (step.same_chain && cell.between == device) {
        loads.lies_until[step.task] += bytes;
        loads.lies_after[steps_[number - 1].task] += bytes;
      }
    }
    double share = 1;
    std::size_t at = to;
    if (!cell.stays) {
      const double moves = cell.between == to ? prices_.round_trip(step.stretch, to)
                                              : prices_.move(step.stretch, cell.between, to);
      share = move_share(step, moves * bytes);
      at = step.best_at;
      add_spoiled(step, bytes, loads);
    } else if (to == device) {
      loads.lies_at[step.task] += bytes;
    }
    prices_.add_lie_during(step.task, at, share * bytes * step.lies_s, loads);
    for (std::size_t i = step.first; i < step.last; ++i)
      if (uses[i].ordered) prices_.add_use(uses[i], at, share, loads);
    prices_.add_move(step.stretch, cell.before, cell.between, bytes, loads);
    to = cell.before;
  }
}

}  // namespace vma
