#pragma once

#include <vma/policy.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace vma::inline v1 {

/// Which GPUs work, so that a stall holds them up: those that used memory within the last second.
class WorkingGpus {
 public:
  void note(PlaceId device, Time now) {
    if (index(device) >= last_use_.size()) last_use_.resize(index(device) + 1, Time::min());
    last_use_[index(device)] = now;
  }
  std::size_t count(Time now) const {
    return static_cast<std::size_t>(std::ranges::count_if(last_use_, [&](Time last) {
      return last != Time::min() && last + std::chrono::seconds(1) >= now;
    }));
  }

 private:
  std::vector<Time> last_use_;  // By GPU.
};

}  // namespace vma::inline v1
