#pragma once

#include <cstdint>
#include <vector>

namespace vma {

/// The part of an access that one launch performs: a range of the object and the number of passes.
struct LaunchCut {
  std::uint64_t offset = 0, bytes = 0, passes = 0;

  friend bool operator==(const LaunchCut&, const LaunchCut&) = default;
};

/// Splits an access into launches that read at most `launch_bytes` each: all passes over one part
/// before the next part. A launch reads its part at least once. `passes` is rounded to a whole
/// number, at least one. Requires: `bytes` and `launch_bytes` above 0.
std::vector<LaunchCut> cut_launches(std::uint64_t offset, std::uint64_t bytes, double passes,
                                    std::uint64_t launch_bytes);

}  // namespace vma
