#include "lab/generate/trace_random.hpp"

#include <boost/random/exponential_distribution.hpp>
#include <boost/random/lognormal_distribution.hpp>
#include <boost/random/poisson_distribution.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace vma {
namespace {

std::vector<double> zipf_weights(std::size_t ranks, double skew) {
  std::vector<double> weights(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    weights[rank] = std::pow(static_cast<double>(rank + 1), -skew);
  }
  return weights;
}

}  // namespace

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

Zipf::Zipf(std::size_t ranks, double skew)
    : drawn_(zipf_weights(ranks, skew)), shares_(drawn_.probabilities()) {}

Popularity::Popularity(std::size_t items, double skew, TraceRandom& random)
    : zipf_(items, skew), item_(items) {
  std::iota(item_.begin(), item_.end(), std::size_t{0});
  random.shuffle(item_);
}

void Popularity::drift(std::size_t ranks, double probability, TraceRandom& random) {
  for (std::size_t rank = 0; rank < std::min(ranks, item_.size()); ++rank) {
    if (random.chance(probability)) std::swap(item_[rank], item_[random.below(item_.size())]);
  }
}

}  // namespace vma
