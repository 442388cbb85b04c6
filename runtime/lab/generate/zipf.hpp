#pragma once

#include "lab/generate/trace_random.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vma {

/// Draws ranks from 0 on, rank r with weight 1 / (r + 1)^skew.
class Zipf {
 public:
  /// Requires: `ranks` is above 0 and `skew` at least 0 (0: uniform).
  Zipf(std::size_t ranks, double skew);

  std::size_t draw(TraceRandom& random) const;
  /// The probability of one rank.
  double share(std::size_t rank) const;

 private:
  std::vector<double> up_to_;  // The probability of a rank and all before it.
};

/// Which item has which rank, and thus how often it is drawn; it may change over time. Not
/// thread-safe.
class Popularity {
 public:
  /// Items get random ranks.
  Popularity(std::size_t items, double skew, TraceRandom& random);

  std::size_t draw(TraceRandom& random) const { return item_[zipf_.draw(random)]; }
  std::size_t item(std::size_t rank) const { return item_[rank]; }
  double share(std::size_t rank) const { return zipf_.share(rank); }
  /// With this probability, each of the first `ranks` ranks is swapped with that of another item.
  void drift(std::size_t ranks, double probability, TraceRandom& random);

 private:
  Zipf zipf_;
  std::vector<std::size_t> item_;  // By rank.
};

}  // namespace vma
