#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace vma {

/// How far apart the results of one thing lie over its seeds, and so how well its mean is known.
struct SeedSpread {
  std::size_t count = 0;
  std::optional<double> mean;                ///< Null of no values.
  std::optional<double> standard_deviation;  ///< Of a sample: over n - 1. Null of fewer than two.
  /// The mean lies within this of the true one with 95 % confidence, as far as the values are
  /// normal: t(0.975; n - 1) * standard_deviation / sqrt(n), of Student's distribution ("The
  /// probable error of a mean", Biometrika 6, 1908). Null of fewer than two.
  std::optional<double> half_width;
  friend bool operator==(const SeedSpread&, const SeedSpread&) = default;
};

SeedSpread spread_of(std::span<const double> values);

}  // namespace vma
