#include "lab/generate/zipf.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace vma {

Zipf::Zipf(std::size_t ranks, double skew) : up_to_(ranks) {
  double sum = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    sum += std::pow(static_cast<double>(rank + 1), -skew);
    up_to_[rank] = sum;
  }
  for (double& up_to : up_to_) up_to /= sum;
}

std::size_t Zipf::draw(TraceRandom& random) const {
  const auto found = std::upper_bound(up_to_.begin(), up_to_.end() - 1, random.uniform());
  return static_cast<std::size_t>(found - up_to_.begin());
}

double Zipf::share(std::size_t rank) const {
  return up_to_[rank] - (rank > 0 ? up_to_[rank - 1] : 0);
}

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
