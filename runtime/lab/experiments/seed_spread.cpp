#include "lab/experiments/seed_spread.hpp"

#include <boost/math/distributions/students_t.hpp>

#include <cmath>
#include <numeric>

namespace vma {
namespace {

constexpr double confidence = 0.95;

}  // namespace

SeedSpread spread_of(std::span<const double> values) {
  SeedSpread spread;
  spread.count = values.size();
  if (values.empty()) return spread;
  const double count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  spread.mean = mean;
  if (values.size() < 2) return spread;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  spread.standard_deviation = std::sqrt(squares / (count - 1));
  const boost::math::students_t distribution(count - 1);
  spread.half_width = boost::math::quantile(distribution, (1 + confidence) / 2) *
                      *spread.standard_deviation / std::sqrt(count);
  return spread;
}

}  // namespace vma
