#include "bench/placement/launch_pace.hpp"

#include <algorithm>

namespace vma {

void LaunchPace::adapt(std::uint64_t bytes, std::chrono::nanoseconds took) noexcept {
  const double in_batch_time = static_cast<double>(bytes) *
                               static_cast<double>(batch_time.count()) /
                               static_cast<double>(std::max<std::int64_t>(took.count(), 1));
  const double a_launch =
      std::clamp(in_batch_time / static_cast<double>(batch), static_cast<double>(launch_bytes_min),
                 static_cast<double>(launch_bytes_max));
  launch_bytes_ = static_cast<std::uint64_t>(a_launch) / launch_bytes_min * launch_bytes_min;
}

}  // namespace vma
