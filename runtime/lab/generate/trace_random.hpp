#pragma once

#include <vma/snapshot.hpp>

#include <boost/random/mersenne_twister.hpp>
#include <boost/random/uniform_01.hpp>
#include <boost/random/uniform_int_distribution.hpp>

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

}  // namespace vma
