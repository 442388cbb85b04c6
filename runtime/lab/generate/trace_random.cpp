#include "lab/generate/trace_random.hpp"

#include <cmath>
#include <numbers>

namespace vma {

Time TraceRandom::exponential(double mean_ns) {
  return Time(std::llround(-mean_ns * std::log1p(-uniform())));
}

double TraceRandom::normal() {
  const double radius = std::sqrt(-2 * std::log1p(-uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

double TraceRandom::log_normal(double median, double sigma) {
  return median * std::exp(sigma * normal());
}

std::uint64_t TraceRandom::poisson(double mean) {
  constexpr double large = 64;
  if (mean > large) {
    const double drawn = std::round(mean + std::sqrt(mean) * normal());
    return drawn > 0 ? static_cast<std::uint64_t>(drawn) : 0;
  }
  const double least = std::exp(-mean);
  std::uint64_t count = 0;
  for (double product = uniform(); product > least; product *= uniform()) ++count;
  return count;
}

}  // namespace vma
