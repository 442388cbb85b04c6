#include "lab/generate/trace_random.hpp"

#include <boost/random/exponential_distribution.hpp>
#include <boost/random/lognormal_distribution.hpp>
#include <boost/random/poisson_distribution.hpp>

#include <cmath>

namespace vma {

Time TraceRandom::exponential(double mean_ns) {
  return Time(std::llround(mean_ns * boost::random::exponential_distribution<double>()(engine_)));
}

double TraceRandom::log_normal(double median, double sigma) {
  return boost::random::lognormal_distribution<double>(std::log(median), sigma)(engine_);
}

std::uint64_t TraceRandom::poisson(double mean) {
  if (mean == 0) return 0;  // Boost excludes it.
  return boost::random::poisson_distribution<std::uint64_t>(mean)(engine_);
}

}  // namespace vma
