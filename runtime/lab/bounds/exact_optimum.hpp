#pragma once

#include "lab/bounds/placement_instance.hpp"

#include <cstddef>
#include <optional>

namespace vma {

/// The minimum cost of the instance with the capacities enforced at the end of each block, found by
/// enumerating all joint states of all chunks. None if there are more than `states_max` states, or
/// more than `work_max` steps.
struct ExactOptimum {
  std::size_t states_max = std::size_t{1} << 18;
  double work_max = 3e8;

  std::optional<double> operator()(const PlacementInstance& instance) const;
};

}  // namespace vma
