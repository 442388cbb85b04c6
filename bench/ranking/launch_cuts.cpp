#include "bench/ranking/launch_cuts.hpp"

#include <algorithm>
#include <cmath>

namespace vma {

std::vector<LaunchCut> cut_launches(std::uint64_t offset, std::uint64_t bytes, double passes,
                                    std::uint64_t launch_bytes) {
  const auto whole = static_cast<std::uint64_t>(std::max(std::round(passes), 1.0));
  std::vector<LaunchCut> cuts;
  for (std::uint64_t done = 0; done < bytes; done += launch_bytes) {
    const std::uint64_t part = std::min(launch_bytes, bytes - done);
    const std::uint64_t at_once = std::max<std::uint64_t>(launch_bytes / part, 1);
    for (std::uint64_t left = whole; left > 0; left -= std::min(left, at_once))
      cuts.push_back({offset + done, part, std::min(left, at_once)});
  }
  return cuts;
}

}  // namespace vma
