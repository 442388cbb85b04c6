#include "lab/policies/demand_growth.hpp"

#include <algorithm>
#include <cmath>

namespace vma::inline v1 {
namespace {

constexpr double densest_log2 = 12;  // 4096 passes a second and more are the first class.

}  // namespace

std::size_t DemandGrowth::class_of(double passes_s) {
  if (!(passes_s > 0)) return classes - 1;
  const double number = std::floor(densest_log2 - std::log2(passes_s));
  return static_cast<std::size_t>(std::clamp(number, 0.0, static_cast<double>(classes - 1)));
}

std::size_t DemandGrowth::length_of(double life_s) {
  const double shortest = std::ldexp(1e-9, static_cast<int>(first_length));
  const double number = std::ceil(std::log2(std::max(life_s, shortest) / shortest));
  return static_cast<std::size_t>(std::min(number, static_cast<double>(lengths - 1)));
}

void DemandGrowth::turn_window(Time now) {
  const std::int64_t number = now / window_;
  if (number == window_number_) return;
  for (Stretch& stretch : stretches_) {
    stretch.most_before = number == window_number_ + 1 ? stretch.most : decltype(stretch.most){};
    stretch.most = {};
  }
  peak_before_ = number == window_number_ + 1 ? peak_ : live_;
  peak_ = live_;
  window_number_ = number;
}

void DemandGrowth::turn_block(Stretch& stretch, std::int64_t block) const {
  if (block == stretch.block) return;
  stretch.least_before = block == stretch.block + 1 ? stretch.least : live_;
  stretch.least = live_;
  stretch.block = block;
}

void DemandGrowth::add(std::size_t of_class, double bytes, Time now) {
  turn_window(now);
  for (std::size_t length = 0; length < lengths; ++length)
    turn_block(stretches_[length], now.count() >> (first_length + length));
  for (std::size_t each = of_class; each < classes; ++each) {
    live_[each] += bytes;
    peak_[each] = std::max(peak_[each], live_[each]);
  }
  for (Stretch& stretch : stretches_) {
    for (std::size_t each = of_class; each < classes; ++each) {
      double& least = stretch.least[each];
      least = std::min(least, live_[each]);
      const double growth = live_[each] - std::min(least, stretch.least_before[each]);
      stretch.most[each] = std::max(stretch.most[each], growth);
    }
  }
}

double DemandGrowth::most(std::size_t of_class, double life_s) const {
  if (of_class == 0) return 0;
  const Stretch& stretch = stretches_[length_of(life_s)];
  return std::max(stretch.most[of_class - 1], stretch.most_before[of_class - 1]);
}

double DemandGrowth::more(std::size_t of_class, double life_s) const {
  if (of_class == 0) return 0;
  const double peak = std::max(peak_[of_class - 1], peak_before_[of_class - 1]);
  return std::min(most(of_class, life_s), peak - live_[of_class - 1]);
}

}  // namespace vma::inline v1
