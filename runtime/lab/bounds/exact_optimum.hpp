#pragma once

#include "lab/bounds/placement_instance.hpp"

#include <cstddef>
#include <optional>

namespace vma {

/// The minimum cost of the instance if the capacities hold at the end of each block, found by
/// enumerating all joint states of all chunks. Returns nothing if there are more than `states_max`
/// states or more than `work_max` steps.
struct ExactOptimum {
  std::size_t states_max = std::size_t{1} << 18;
  double work_max = 3e8;

  std::optional<double> operator()(const PlacementInstance& instance) const;
};

}  // namespace vma
