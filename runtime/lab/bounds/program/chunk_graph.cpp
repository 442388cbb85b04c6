#include "lab/bounds/program/chunk_graph.hpp"

#include "lab/bounds/chunk_walk.hpp"

#include <algorithm>
#include <limits>
#include <span>

namespace vma {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
/// Relative difference up to which two costs are considered equal.
constexpr double hub_rounding = 1e-12;
/// Direct steps that each step through the hub must replace on average: more rows slow down
/// solvers.
constexpr std::size_t worth = 2;

/// The steps of one layer as a matrix: rows are source states, columns are target states.
class HubSearch {
 public:
  HubSearch(std::span<const double> possible, std::span<double> steps, std::size_t places)
      : possible_(possible),
        steps_(steps),
        places_(places),
        states_(2 * places),
        hub_{std::vector<double>(states_, never), std::vector<double>(states_, never)} {}

  std::optional<ChunkHub> run() {
    for (std::size_t to = 0; to < states_; ++to) price_out(to);
    for (std::size_t from = 0; from < states_; ++from) price_into(from);
    std::size_t replaced = 0, used = 0;
    for (std::size_t from = 0; from < states_; ++from) {
      const std::size_t steps = count(from, from + 1, 0, states_);
      if (steps < 2) hub_.into[from] = never;
      if (steps >= 2) replaced += steps;
      used += steps >= 2 ? 1 : 0;
    }
    for (std::size_t to = 0; to < states_; ++to) {
      if (count(0, states_, to, to + 1) == 0) hub_.out[to] = never;
      used += hub_.out[to] < never ? 1 : 0;
    }
    if (used == 0 || replaced < worth * used) return std::nullopt;
    for (std::size_t from = 0; from < states_; ++from)
      for (std::size_t to = 0; to < states_; ++to)
        if (goes_by_hub(from, to)) steps_[from * states_ + to] = never;
    return std::move(hub_);
  }

 private:
  bool has_steps(std::size_t from) const {
    const auto row = steps_.subspan(from * states_, states_);
    return std::ranges::any_of(row, [](double step) { return step < never; });
  }
  /// The cheapest step from another place; set only if all states with steps can reach `to`.
  void price_out(std::size_t to) {
    double least = never;
    for (std::size_t from = 0; from < states_; ++from) {
      if (!has_steps(from)) continue;
      if (possible_[from * states_ + to] == never) return;
      if (from % places_ != to % places_) least = std::min(least, steps_[from * states_ + to]);
    }
    hub_.out[to] = least;
  }
  /// The smallest value that makes no step cheaper.
  void price_into(std::size_t from) {
    if (!has_steps(from)) return;
    double most = 0;
    for (std::size_t to = 0; to < states_; ++to)
      if (hub_.out[to] < never)
        most = std::max(most, possible_[from * states_ + to] - hub_.out[to]);
    hub_.into[from] = most;
  }
  bool goes_by_hub(std::size_t from, std::size_t to) const {
    const double step = steps_[from * states_ + to];
    return step < never && hub_.into[from] + hub_.out[to] <= step * (1 + hub_rounding);
  }
  std::size_t count(std::size_t from, std::size_t from_end, std::size_t to,
                    std::size_t to_end) const {
    std::size_t count = 0;
    for (std::size_t row = from; row < from_end; ++row)
      for (std::size_t column = to; column < to_end; ++column)
        count += goes_by_hub(row, column) ? 1 : 0;
    return count;
  }

  std::span<const double> possible_;
  std::span<double> steps_;
  std::size_t places_, states_;
  ChunkHub hub_;
};

/// Relative difference up to which two costs are considered equal.
constexpr double rounding = 1e-12;

}  // namespace

TightRooms::TightRooms(const PlacementInstance& instance)
    : capacities_(instance.capacities),
      alive_(std::size_t{instance.blocks} + 1),
      ends_(std::size_t{instance.blocks} + 1),
      nexts_(instance.blocks, instance.blocks) {
  for (const PlacementChunk& chunk : instance.chunks) {
    const auto bytes = static_cast<double>(chunk.bytes);  // The sums are integers below 2^53, hence
                                                          // exact.
    alive_[std::min(chunk.begin, instance.blocks)] += bytes;
    alive_[std::min(chunk.end, instance.blocks)] -= bytes;
  }
  for (std::size_t block = 1; block < alive_.size(); ++block) alive_[block] += alive_[block - 1];
  for (std::uint32_t block = 0; block < instance.blocks; ++block) {
    bool any = false;
    for (std::size_t place = 0; place < capacities_.size(); ++place) any |= at(block, place);
    ends_[block + 1] = ends_[block] + (any ? 1 : 0);
  }
  std::uint32_t next = instance.blocks;
  for (std::uint32_t block = instance.blocks; block-- > 0;) {
    if (ends_[block + 1] > ends_[block]) next = block;
    nexts_[block] = next;
  }
}

std::size_t TightRooms::ends(const PlacementChunk& chunk) const {
  const std::size_t last = ends_.size() - 1;
  return ends_[std::min<std::size_t>(chunk.end, last)] -
         ends_[std::min<std::size_t>(chunk.begin, last)];
}

std::optional<std::uint32_t> TightRooms::next(std::uint32_t block) const {
  if (block >= nexts_.size() || nexts_[block] == nexts_.size()) return std::nullopt;
  return nexts_[block];
}

std::optional<ChunkHub> ChunkHub::replace(std::span<const double> possible, std::span<double> steps,
                                          std::size_t places) {
  return HubSearch(possible, steps, places).run();
}

ChunkGraph::ChunkGraph(const PlacementInstance& instance, const TightRooms& tight,
                       std::size_t chunk)
    : chunk_(instance.chunks[chunk]),
      tight_(tight),
      places_(instance.place_count()),
      states_(PathStep::states(places_)) {
  ChunkWalk walk(instance, chunk);
  PathStep step(places_);
  std::vector<bool> reached(states_);
  std::uint32_t room = chunk_.begin;
  for (;;) {
    const std::uint32_t short_at = tight.next(room).value_or(UINT32_MAX);
    const std::uint32_t priced = short_at < chunk_.end ? short_at : UINT32_MAX;
    const std::uint32_t block = std::min(walk.next().value_or(UINT32_MAX), priced);
    if (block == UINT32_MAX) return;
    if (block == priced) room = block + 1;
    blocks_.push_back(block);
    probe(instance, walk.enter(block), step, reached);
    for (std::size_t to = 0; to < states_; ++to) {
      reached[to] = false;
      for (std::size_t from = 0; from < states_; ++from)
        if (cost(layers() - 1, from, to) < never) reached[to] = true;
    }
  }
}

/// The cost of a block from one state is independent of the others, so probes each state alone.
void ChunkGraph::probe(const PlacementInstance& instance, const ChunkBlock& block, PathStep& step,
                       const std::vector<bool>& reached) {
  costs_.resize(costs_.size() + states_ * states_, never);
  const MoveTable& moves = instance.moves_of(chunk_);
  std::vector<PathCell> cells(states_);
  const auto ask = [&](std::size_t from) {
    step.advance(moves, block, cells);
    for (std::size_t to = 0; to < states_; ++to) way(layers() - 1, from, to) = cells[to].cost;
  };
  if (layers() == 1) {
    step.begin(chunk_, cells);
    return ask(0);
  }
  for (std::size_t from = 0; from < states_; ++from) {
    if (!reached[from]) continue;
    std::ranges::fill(cells, PathCell{never, 0});
    cells[from].cost = 0;
    ask(from);
  }
}

bool ChunkGraph::takes_room(std::size_t layer, std::size_t state) const {
  return blocks_[layer] < chunk_.end && tight_.at(blocks_[layer], state % places_);
}

/// `cost` in the next layer; after the last layer the path ends at state 0 at no cost.
double ChunkGraph::onwards(std::size_t layer, std::size_t from, std::size_t to) const {
  if (layer + 1 < layers()) return cost(layer + 1, from, to);
  return to == 0 ? 0 : never;
}

void ChunkGraph::thin_out() {
  for (std::size_t layer = layers(); layer-- > 0;) unite_alike(layer);
  const std::vector<double> possible = costs_;
  for (std::size_t layer = 0; layer < layers(); ++layer) delay(layer);
  for (std::size_t layer = layers(); layer-- > 0;) hasten(layer);
  drop_dead_ends();
  find_hubs(possible);
}

/// Skips the first layer, which has only one start.
void ChunkGraph::find_hubs(const std::vector<double>& possible) {
  const std::size_t size = states_ * states_;
  hubs_.resize(layers());
  for (std::size_t layer = 1; layer < layers(); ++layer) {
    hubs_[layer] = ChunkHub::replace(std::span(possible).subspan(layer * size, size),
                                     std::span(costs_).subspan(layer * size, size), places_);
  }
}

/// Merges the two states of a place if all later costs are the same.
void ChunkGraph::unite_alike(std::size_t layer) {
  for (std::size_t state = 0; state < places_; ++state) {
    const std::size_t other = state + places_;
    bool alike = true;
    for (std::size_t to = 0; alike && to < states_; ++to)
      alike = onwards(layer, state, to) == onwards(layer, other, to);
    if (!alike) continue;
    for (std::size_t from = 0; from < states_; ++from) {
      way(layer, from, state) = std::min(cost(layer, from, state), cost(layer, from, other));
      way(layer, from, other) = never;
    }
    if (layer + 1 == layers()) continue;
    for (std::size_t to = 0; to < states_; ++to) way(layer + 1, other, to) = never;
  }
}

/// Whether another state than `by` connects `from` to `to` at no higher cost and without more room.
bool ChunkGraph::is_replaceable(std::size_t layer, std::size_t from, std::size_t by,
                                std::size_t to) const {
  const double most = (cost(layer, from, by) + onwards(layer, by, to)) * (1 + rounding);
  for (std::size_t other = 0; other < states_; ++other) {
    if (other == by) continue;
    if (takes_room(layer, other) && other % places_ != by % places_) continue;
    if (cost(layer, from, other) + onwards(layer, other, to) <= most) return true;
  }
  return false;
}

/// Drops steps into states that can be entered later. One at a time, so that the replacement
/// exists.
void ChunkGraph::delay(std::size_t layer) {
  for (std::size_t to = states_; to-- > 0;) {
    for (std::size_t from = 0; from < states_; ++from) {
      if (cost(layer, from, to) == never) continue;
      bool needed = false;
      for (std::size_t next = 0; !needed && next < states_; ++next)
        needed = onwards(layer, to, next) < never && !is_replaceable(layer, from, to, next);
      if (!needed) way(layer, from, to) = never;
    }
  }
}

/// Drops steps out of states that can be left earlier.
void ChunkGraph::hasten(std::size_t layer) {
  if (layer + 1 == layers()) return;
  for (std::size_t from = states_; from-- > 0;) {
    for (std::size_t to = 0; to < states_; ++to) {
      if (cost(layer + 1, from, to) == never) continue;
      bool needed = false;
      for (std::size_t before = 0; !needed && before < states_; ++before)
        needed = cost(layer, before, from) < never && !is_replaceable(layer, before, from, to);
      if (!needed) way(layer + 1, from, to) = never;
    }
  }
}

void ChunkGraph::drop_dead_ends() {
  const auto is_left = [&](std::size_t layer, std::size_t from) {
    for (std::size_t to = 0; to < states_; ++to)
      if (onwards(layer, from, to) < never) return true;
    return false;
  };
  const auto is_reached = [&](std::size_t layer, std::size_t to) {
    for (std::size_t from = 0; from < states_; ++from)
      if (cost(layer, from, to) < never) return true;
    return false;
  };
  for (std::size_t layer = layers(); layer-- > 0;)
    for (std::size_t to = 0; to < states_; ++to)
      for (std::size_t from = 0; !is_left(layer, to) && from < states_; ++from)
        way(layer, from, to) = never;
  for (std::size_t layer = 0; layer + 1 < layers(); ++layer)
    for (std::size_t from = 0; from < states_; ++from)
      for (std::size_t to = 0; !is_reached(layer, from) && to < states_; ++to)
        way(layer + 1, from, to) = never;
}

}  // namespace vma
