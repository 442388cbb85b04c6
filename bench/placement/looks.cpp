#include "bench/placement/looks.hpp"

#include <cstddef>

namespace vma {
namespace {

constexpr double held_s = 0.5;

/// Of all looks that begin within `held_s` after the first one.
double average(std::span<const Look> looks) {
  const double until = looks.front().begin + held_s;
  double sum = 0, time = 0;
  for (const Look& look : looks) {
    if (look.begin >= until) break;
    sum += look.rate * (look.end - look.begin);
    time += look.end - look.begin;
  }
  return time > 0 ? sum / time : 0;
}

}  // namespace

std::optional<double> recovery_of(std::span<const Look> looks, double least) {
  for (std::size_t i = 0; i < looks.size(); ++i) {
    if (looks[i].rate >= least && average(looks.subspan(i)) >= least) return looks[i].begin;
  }
  return std::nullopt;
}

}  // namespace vma
