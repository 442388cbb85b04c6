#include "lab/bounds/chunk_walk.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

namespace vma {
namespace {

constexpr PathCell nowhere{std::numeric_limits<double>::infinity(), 0};

void take_cheaper(PathCell& cell, const PathCell& from, double more) {
  if (from.cost + more < cell.cost) cell = {from.cost + more, from.origin};
}

void add(std::span<PathCell> cells, std::span<const double> costs) {
  for (std::size_t place = 0; place < cells.size(); ++place) cells[place].cost += costs[place];
}

}  // namespace

ChunkWalk::ChunkWalk(const PlacementInstance& instance, std::size_t chunk)
    : instance_(instance),
      chunk_(instance.chunks[chunk]),
      next_use_(chunk_.first_use),
      end_use_(chunk_.first_use + chunk_.uses),
      last_block_(static_cast<std::int64_t>(chunk_.begin) - 1) {
  now_.shared = chunk_.shared;
}

std::optional<std::uint32_t> ChunkWalk::next() const {
  if (now_.any_after) return static_cast<std::uint32_t>(last_block_ + 1);
  if (next_use_ < end_use_) return instance_.uses[next_use_].block;
  return std::nullopt;
}

const ChunkBlock& ChunkWalk::enter(std::uint32_t block) {
  now_.skipped = last_block_ + 1 != static_cast<std::int64_t>(block);
  last_block_ = block;
  now_.before.swap(now_.after);
  now_.any_before = now_.any_after;
  now_.any_within = now_.any_after = now_.mixed = false;
  now_.apart = 0;
  const std::size_t first = next_use_;
  for (; next_use_ < end_use_ && instance_.uses[next_use_].block == block; ++next_use_) {
    if (instance_.uses[next_use_].late) {
      add(next_use_, now_.after, now_.any_after);
    } else {
      now_.mixed |= now_.any_within;
      add(next_use_, now_.within, now_.any_within);
    }
  }
  if (now_.mixed) now_.apart = cost_apart(first, next_use_);
  return now_;
}

void ChunkWalk::add(std::size_t use, std::vector<double>& sum, bool& any) {
  if (!any) sum.assign(instance_.place_count(), 0);
  any = true;
  std::ranges::transform(instance_.row(use), sum, sum.begin(), std::plus<>());
}

/// For each place that is best for some devices, either these pay for their second best, or the
/// chunk moves there at least once. Only the places where it starts and ends may need no such move,
/// so the two largest terms are omitted.
double ChunkWalk::cost_apart(std::size_t first, std::size_t last) {
  savings_.assign(instance_.place_count(), 0);
  for (std::size_t use = first; use < last; ++use) {
    if (instance_.uses[use].late) continue;
    const std::span<const double> row = instance_.row(use);
    const auto best = std::ranges::min_element(row);
    double second = std::numeric_limits<double>::infinity();
    for (auto place = row.begin(); place != row.end(); ++place)
      if (place != best) second = std::min(second, *place);
    savings_[static_cast<std::size_t>(best - row.begin())] += second;
  }
  const MoveTable& moves = instance_.moves_of(chunk_);
  double sum = 0;
  std::array<double, 2> largest{};
  for (std::size_t place = 0; place < savings_.size(); ++place) {
    double least = std::min(savings_[place], moves.into(place));
    if (least > largest[0]) std::swap(least, largest[0]);
    if (least > largest[1]) std::swap(least, largest[1]);
    sum += least;  // The smallest of the three.
  }
  return sum;
}

void PathStep::begin(const PlacementChunk& chunk, std::span<PathCell> cells) const {
  for (std::size_t state = 0; state < cells.size(); ++state) {
    const bool possible = state < places_ && (chunk.begin_places >> state & 1) != 0;
    cells[state] = possible ? PathCell{} : nowhere;
  }
}

void PathStep::advance(const MoveTable& moves, const ChunkBlock& block, Cells cells) {
  for (std::size_t state = 0; state < cells.size(); ++state)
    cells[state].origin = static_cast<std::uint8_t>(state);
  const Cells settled = cells.first(places_), open = cells.last(places_);
  if (block.shared) {
    advance_shared(moves, block, settled, open);
  } else {
    advance_alone(moves, block, settled, open);
  }
}

/// Uses that arrived in the previous block begin before those of this block. Uses that may begin on
/// either side of a block's end all begin on the same side: they belong to one device, which
/// prefers the same places for all of them.
void PathStep::advance_alone(const MoveTable& moves, const ChunkBlock& block, Cells settled,
                             Cells open) {
  if (block.any_before) {
    move_freely(moves, open);
    add(open, block.before);
    for (std::size_t place = 0; place < places_; ++place)
      take_cheaper(settled[place], open[place], 0);
  }
  move_freely(moves, settled);
  if (block.any_within) {
    add(settled, block.within);
    move_freely(moves, settled);
  }
  std::ranges::fill(open, nowhere);
  if (!block.any_after) return;
  std::ranges::copy(settled, open.begin());
  add(settled, block.after);
  move_freely(moves, settled);
}

void PathStep::advance_shared(const MoveTable& moves, const ChunkBlock& block, Cells settled,
                              Cells open) {
  for (std::size_t place = 0; place < places_; ++place) {
    base_[place] = settled[place];
    take_cheaper(base_[place], open[place], 0);
  }
  if (block.skipped) {
    move_freely(moves, base_);
    std::ranges::copy(base_, settled.begin());
  } else {
    // A chunk that moved in the previous block may have served the late uses on its way.
    if (block.any_before) add(settled, block.before);
    for (std::size_t place = 0; place < places_; ++place)
      take_cheaper(settled[place], open[place], 0);
  }
  if (block.any_within) add(settled, block.within);
  std::ranges::fill(open, nowhere);
  if (block.any_within && !block.mixed) {
    move_by_one(moves, block, open);
  } else {
    move_once(moves, block, open);
  }
}

/// From `base_` with at least one move.
void PathStep::move_once(const MoveTable& moves, const ChunkBlock& block, Cells moved) {
  for (std::size_t from = 0; from < places_; ++from) {
    for (std::size_t to = 0; to < places_; ++to) {
      const double way = from == to ? moves.round_trip(to) : moves.shortest(from, to);
      const double apart = block.mixed ? moves.into(to) + block.apart : 0;
      take_cheaper(moved[to], base_[from], std::max(way, apart));
    }
  }
}

/// Like `move_once`, if one device uses the chunk: it does so at one of the places on the way.
void PathStep::move_by_one(const MoveTable& moves, const ChunkBlock& block, Cells moved) {
  std::ranges::copy(base_, reached_.begin());
  move_freely(moves, reached_);
  add(reached_, block.within);
  for (std::size_t to = 0; to < places_; ++to) {
    take_cheaper(moved[to], base_[to], moves.round_trip(to) + block.within[to]);
    for (std::size_t by = 0; by < places_; ++by) {
      if (by == to) continue;
      take_cheaper(moved[to], reached_[by], moves.shortest(by, to));
      take_cheaper(moved[to], base_[by], moves.shortest(by, to) + block.within[to]);
    }
  }
}

/// By any number of moves, including none.
void PathStep::move_freely(const MoveTable& moves, Cells cells) {
  const double least = std::ranges::min(cells, {}, &PathCell::cost).cost + moves.cheapest();
  // Paths of `shortest` cannot be shortened, so improved cells improve no others.
  for (PathCell& cell : cells) {
    if (cell.cost <= least) continue;
    const auto to = static_cast<std::size_t>(&cell - cells.data());
    for (std::size_t from = 0; from < places_; ++from)
      take_cheaper(cell, cells[from], moves.shortest(from, to));
  }
}

}  // namespace vma
