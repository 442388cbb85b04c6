#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace vma {

/// How far the results of one configuration vary over its seeds, and thus how precise its mean is.
struct SeedSpread {
  std::size_t count = 0;
  std::optional<double> mean;                ///< Null without values.
  std::optional<double> standard_deviation;  ///< Of a sample: over n - 1. Null for fewer than two.
  /// The mean is within this of the true one with 95 % confidence, if the values are normal:
  /// t(0.975; n - 1) * standard_deviation / sqrt(n), of Student's distribution ("The probable error
  /// of a mean", Biometrika 6, 1908). Null for fewer than two.
  std::optional<double> half_width;
  friend bool operator==(const SeedSpread&, const SeedSpread&) = default;
};

SeedSpread spread_of(std::span<const double> values);

}  // namespace vma
