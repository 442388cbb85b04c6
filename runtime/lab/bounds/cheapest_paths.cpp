#include "lab/bounds/cheapest_paths.hpp"

#include <algorithm>

namespace vma {

CheapestPaths::CheapestPaths(const PlacementInstance& instance, const EpochGrid& grid)
    : instance_(instance),
      grid_(grid),
      places_(instance.place_count()),
      states_(PathStep::states(places_)),
      step_(places_),
      next_priced_(grid.epochs + 1),
      cells_(states_) {
  const auto most = std::ranges::max_element(instance.capacities);
  roomiest_ = static_cast<std::size_t>(most - instance.capacities.begin());
}

double CheapestPaths::operator()(std::span<const double> prices, std::vector<double>& used) {
  next_priced_[grid_.epochs] = grid_.epochs;
  for (std::uint32_t epoch = grid_.epochs; epoch-- > 0;) {
    const bool priced = std::ranges::any_of(prices.subspan(epoch * places_, places_),
                                            [](double price) { return price > 0; });
    next_priced_[epoch] = priced ? epoch : next_priced_[epoch + 1];
  }
  // Holds changes at the ends of epochs first; the prefix sums below turn them into totals.
  used.assign((grid_.epochs + 1) * places_, 0);
  double seconds = instance_.floor_s;
  for (std::size_t chunk = 0; chunk < instance_.chunks.size(); ++chunk) {
    seconds += walk(chunk, prices);
    trace_back(instance_.chunks[chunk], cells_, used);
  }
  for (std::size_t i = places_; i < used.size(); ++i) used[i] += used[i - places_];
  used.resize(grid_.epochs * places_);
  return seconds;
}

double CheapestPaths::walk(std::size_t number, std::span<const double> prices) {
  const PlacementChunk& chunk = instance_.chunks[number];
  const MoveTable& moves = instance_.moves_of(chunk);
  ChunkWalk walk(instance_, number);
  step_.begin(chunk, cells_);
  blocks_.clear();
  origins_.clear();
  std::uint32_t epoch = grid_.first_end(chunk);
  const std::uint32_t end = grid_.end(chunk);
  for (;;) {
    epoch = epoch < end ? next_priced_[epoch] : end;
    const std::uint32_t priced = epoch < end ? grid_.last_block(epoch) : UINT32_MAX;
    const std::uint32_t block = std::min(walk.next().value_or(UINT32_MAX), priced);
    if (block == UINT32_MAX) break;
    step_.advance(moves, walk.enter(block), cells_);
    blocks_.push_back(block);
    for (const PathCell& cell : cells_) origins_.push_back(cell.origin);
    if (block != priced) continue;
    for (std::size_t state = 0; state < states_; ++state) {
      cells_[state].cost +=
          prices[epoch * places_ + state % places_] * static_cast<double>(chunk.bytes);
    }
    ++epoch;
  }
  blocks_done_ += blocks_.size();
  return std::ranges::min(cells_, {}, &PathCell::cost).cost;
}

void CheapestPaths::trace_back(const PlacementChunk& chunk, std::span<const PathCell> cells,
                               std::vector<double>& used) {
  const auto best = std::ranges::min_element(cells, {}, &PathCell::cost);
  auto state = static_cast<std::size_t>(best - cells.begin());
  std::int64_t until = static_cast<std::int64_t>(grid_.blocks) * grid_.epochs;
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    lies(chunk, state % places_, blocks_[i], until, used);
    until = blocks_[i];
    state = origins_[i * states_ + state];
  }
  const bool anywhere = blocks_.empty() && (chunk.begin_places >> roomiest_ & 1) != 0;
  lies(chunk, anywhere ? roomiest_ : state % places_, chunk.begin, until, used);
}

/// Adds the chunk's bytes at those ends of epochs that are ends of blocks in [`from`, `to`).
void CheapestPaths::lies(const PlacementChunk& chunk, std::size_t place, std::int64_t from,
                         std::int64_t to, std::vector<double>& used) const {
  const std::int64_t size = grid_.blocks;
  const std::int64_t first = from / size,
                     last = std::min<std::int64_t>(to / size, grid_.end(chunk));
  if (first >= last) return;
  const auto bytes = static_cast<double>(chunk.bytes);
  used[static_cast<std::size_t>(first) * places_ + place] += bytes;
  used[static_cast<std::size_t>(last) * places_ + place] -= bytes;
}

}  // namespace vma
