#include "service/usual_mean.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <numeric>

namespace vma {

Time median(std::vector<Time> times) {
  VMART_CHECK(!times.empty(), "a median is of something");
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

Time usual_mean(std::vector<Time> times) {
  constexpr int medians_max = 3;
  const Time most = median(times) * medians_max;
  std::erase_if(times, [&](Time time) { return time > most; });
  const Time sum = std::accumulate(times.begin(), times.end(), Time(0));
  return sum / static_cast<Time::rep>(times.size());
}

}  // namespace vma
