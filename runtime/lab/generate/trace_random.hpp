#pragma once

#include <vma/snapshot.hpp>

#include <boost/random/discrete_distribution.hpp>
#include <boost/random/mersenne_twister.hpp>
#include <boost/random/uniform_01.hpp>
#include <boost/random/uniform_int_distribution.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace vma {

/// Random numbers from a seed, by Boost.Random: the distributions of the standard library differ
/// between implementations. Not thread-safe.
class TraceRandom {
 public:
  using Engine = boost::random::mt19937_64;

  explicit TraceRandom(std::uint64_t seed) : engine_(seed) {}

  /// For distributions that outlive a draw.
  Engine& engine() noexcept { return engine_; }
  /// Uniform in [0, 1).
  double uniform() { return boost::random::uniform_01<double>()(engine_); }
  /// Uniform in [0, `end`). Requires: `end` is above 0.
  std::uint64_t below(std::uint64_t end) {
    return boost::random::uniform_int_distribution<std::uint64_t>(0, end - 1)(engine_);
  }
  bool chance(double probability) { return uniform() < probability; }
  /// The time between two events of a Poisson process.
  Time exponential(double mean_ns);
  /// The exponential of a normal number, scaled so that the median is `median`.
  double log_normal(double median, double sigma);
  /// A Poisson number. Requires: `mean` is at least 0.
  std::uint64_t poisson(double mean);

  template <typename Item>
  void shuffle(std::vector<Item>& items) {
    for (std::size_t left = items.size(); left > 1; --left) {
      std::swap(items[left - 1], items[below(left)]);
    }
  }

 private:
  Engine engine_;
};

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
