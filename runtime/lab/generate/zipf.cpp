#include "lab/generate/zipf.hpp"

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
