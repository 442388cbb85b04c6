#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace vma {

/// A node between two layers of a `ChunkGraph`. If the costs of steps from several states to
/// several others are sums of one part per source and one part per target, the steps go through the
/// hub: this takes one step per state instead of one per pair of states.
struct ChunkHub {
  std::vector<double> into, out;  ///< Per state, in seconds; infinite: there is no such step.

  /// Finds the hub that replaces most of `steps` ([from][to]), and removes those. Returns nothing
  /// if the hub would need more than half as many steps itself. `possible` holds all possible
  /// steps: the hub makes none of them cheaper. States that differ by `places` belong to the same
  /// place.
  static std::optional<ChunkHub> replace(std::span<const double> possible, std::span<double> steps,
                                         std::size_t places);
};

}  // namespace vma
