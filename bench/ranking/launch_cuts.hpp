#pragma once

#include <cstdint>
#include <vector>

namespace vma {

/// A part of an access that is one launch: a range of the object, and how often it is read.
struct LaunchCut {
  std::uint64_t offset = 0, bytes = 0, passes = 0;

  friend bool operator==(const LaunchCut&, const LaunchCut&) = default;
};

/// Cuts an access into launches that read at most `launch_bytes` each, all passes over one part
/// before the next part; a launch reads its part at least once. `passes` is rounded to whole ones,
/// at least one. Requires: `bytes` and `launch_bytes` above 0.
std::vector<LaunchCut> cut_launches(std::uint64_t offset, std::uint64_t bytes, double passes,
                                    std::uint64_t launch_bytes);

}  // namespace vma
