#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace vma {

/// How much the results of one configuration vary over its seeds, and how precise their mean is.
struct SeedSpread {
  std::size_t count = 0;
  std::optional<double> mean;                ///< Null without values.
  std::optional<double> standard_deviation;  ///< Of the sample (n - 1). Null for fewer than two.
  /// With 95 % confidence, the true mean is within this distance of `mean`, if the values are
  /// normal: t(0.975; n - 1) * standard_deviation / sqrt(n), with Student's distribution ("The
  /// probable error of a mean", Biometrika 6, 1908). Null for fewer than two values.
  std::optional<double> half_width;
  friend bool operator==(const SeedSpread&, const SeedSpread&) = default;
};

SeedSpread spread_of(std::span<const double> values);

}  // namespace vma
