#pragma once

#include <vma/snapshot.hpp>

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace vma {

/// Random numbers from a seed. Implements its own distributions, since those of the standard
/// library differ between implementations. Not thread-safe.
class TraceRandom {
 public:
  explicit TraceRandom(std::uint64_t seed) : engine_(seed) {}

  /// Uniform in [0, 1).
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  /// Uniform in [0, `end`). Requires: `end` is above 0 and below 2^53.
  std::uint64_t below(std::uint64_t end) {
    return static_cast<std::uint64_t>(uniform() * static_cast<double>(end));
  }
  bool chance(double probability) { return uniform() < probability; }
  /// The time between two events of a Poisson process.
  Time exponential(double mean_ns);
  double normal();
  /// The exponential of a normal number, scaled so that the median is `median`.
  double log_normal(double median, double sigma);
  /// A Poisson number; for large means a rounded normal number.
  std::uint64_t poisson(double mean);

  template <typename Item>
  void shuffle(std::vector<Item>& items) {
    for (std::size_t left = items.size(); left > 1; --left) {
      std::swap(items[left - 1], items[below(left)]);
    }
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace vma
