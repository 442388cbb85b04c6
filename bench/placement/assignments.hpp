#pragma once

#include "bench/placement/drift_load.hpp"

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vma {

/// How many bytes each reader reads of each block in one step: `bytes[reader][block]`.
struct Readings {
  std::vector<std::vector<double>> bytes;
};

Readings readings_of(const DriftLoad& load, std::size_t phase);

/// Which GPU each block lies on.
using Assignment = std::vector<std::size_t>;

/// Bytes a second of all readers together, which end each step when the slowest has read its
/// share; by the machine's rates. Each reader has its links to itself: where several read from one
/// GPU, which the best assignments avoid, it is too high.
double foretold_rate(const Readings& readings, const Assignment& assignment,
                     const MachineCosts& costs);

struct BestAssignments {
  std::vector<Assignment> best;  ///< As many as were asked for, the best one first, all different.
  bool every_one = false;        ///< All that there are were looked at.
};
/// By `foretold_rate`: of all assignments where there are at most 100 000, else of those that hill
/// climbing sees from 20 starts; `seed` chooses these. Each GPU holds at most `blocks_max`.
BestAssignments best_assignments(const Readings& readings, std::size_t gpus, std::size_t blocks_max,
                                 const MachineCosts& costs, std::size_t wanted, std::uint64_t seed);

}  // namespace vma
