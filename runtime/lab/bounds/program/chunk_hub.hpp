#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace vma {

/// A point on the way between two layers of a `ChunkGraph`. Where moves from any of several states
/// to any of several others cost a part that depends on the first and one that depends on the
/// second, they go by way of it: as many steps as there are states, not as there are pairs of them.
struct ChunkHub {
  std::vector<double> into, out;  ///< By state, seconds; infinite: there is no such step.

  /// The hub that takes away most of `steps` ([from][to]), and takes those away; none if it would
  /// need more than half as many. `possible` are all steps that there could be: by way of the hub
  /// none is cheaper than there. Two states are of one place if they differ by `places`.
  static std::optional<ChunkHub> replace(std::span<const double> possible, std::span<double> steps,
                                         std::size_t places);
};

}  // namespace vma
