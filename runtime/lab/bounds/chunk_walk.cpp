#include "lab/bounds/chunk_walk.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

namespace vma {

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

}  // namespace vma
