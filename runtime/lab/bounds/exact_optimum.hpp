#pragma once

#include "lab/bounds/placement_instance.hpp"

#include <cstddef>
#include <optional>

namespace vma {

/// The least that the instance can cost with the capacities kept at the end of each block, by
/// going through all states of all chunks together. None if there are more than `states_max` of
/// them, or more than `work_max` steps to do.
struct ExactOptimum {
  std::size_t states_max = std::size_t{1} << 18;
  double work_max = 3e8;

  std::optional<double> operator()(const PlacementInstance& instance) const;
};

}  // namespace vma
