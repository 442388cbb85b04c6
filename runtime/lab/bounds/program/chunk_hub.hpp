#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace vma {

/// A node between two layers of a `ChunkGraph`. If moves from any of several states to any of
/// several others cost a part that depends on the first plus one that depends on the second, they
/// go through it: that needs as many steps as there are states instead of pairs of them.
struct ChunkHub {
  std::vector<double> into, out;  ///< By state, seconds; infinite: there is no such step.

  /// The hub that replaces most of `steps` ([from][to]), and removes those; none if it would need
  /// more than half as many. `possible` are all possible steps: the hub makes none of them cheaper.
  /// Two states belong to one place if they differ by `places`.
  static std::optional<ChunkHub> replace(std::span<const double> possible, std::span<double> steps,
                                         std::size_t places);
};

}  // namespace vma
