#include "measuring/usual_mean.hpp"

#include "base/vectors.hpp"

#include <algorithm>
#include <numeric>

namespace vma {

Time usual_mean(std::vector<Time> times) {
  constexpr int medians_max = 3;
  const Time most = median(times) * medians_max;
  std::erase_if(times, [&](Time time) { return time > most; });
  const Time sum = std::accumulate(times.begin(), times.end(), Time(0));
  return sum / static_cast<Time::rep>(times.size());
}

}  // namespace vma
