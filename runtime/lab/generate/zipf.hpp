#pragma once

#include "lab/generate/trace_random.hpp"

#include <boost/random/discrete_distribution.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vma {

/// Draws ranks from 0 up; rank r has weight 1 / (r + 1)^skew.
class Zipf {
 public:
  /// Requires: `ranks` is above 0 and `skew` at least 0 (0: uniform).
  Zipf(std::size_t ranks, double skew);

  std::size_t draw(TraceRandom& random) const { return drawn_(random.engine()); }
  /// The probability of a rank.
  double share(std::size_t rank) const { return shares_[rank]; }

 private:
  boost::random::discrete_distribution<std::size_t> drawn_;
  std::vector<double> shares_;
};

/// Maps ranks to items: how often each item is drawn, which may change over time. Not thread-safe.
class Popularity {
 public:
  /// Assigns random ranks to the items.
  Popularity(std::size_t items, double skew, TraceRandom& random);

  std::size_t draw(TraceRandom& random) const { return item_[zipf_.draw(random)]; }
  std::size_t item(std::size_t rank) const { return item_[rank]; }
  double share(std::size_t rank) const { return zipf_.share(rank); }
  /// Swaps each of the first `ranks` ranks with a random one, with the given probability.
  void drift(std::size_t ranks, double probability, TraceRandom& random);

 private:
  Zipf zipf_;
  std::vector<std::size_t> item_;  // Indexed by rank.
};

}  // namespace vma
