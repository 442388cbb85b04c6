#include "lab/bounds/program/chunk_graph.hpp"

#include "lab/bounds/chunk_walk.hpp"

#include <algorithm>
#include <span>

namespace vma {
namespace {

/// Relative difference up to which two costs are considered equal.
constexpr double rounding = 1e-12;

}  // namespace

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
