#pragma once

#include "bench/placement/drift_load.hpp"

#include <vma/snapshot.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vma {

/// Bytes that each reader reads of each block in one step: `bytes[reader][block]`.
struct Readings {
  std::vector<std::vector<double>> bytes;
};

Readings readings_of(const DriftLoad& load, std::size_t phase);

/// The GPU that holds each block.
using Assignment = std::vector<std::size_t>;

/// Predicted bytes per second of all readers together, from the machine's rates. Each step ends
/// when the slowest reader has read its share. Assumes that readers do not share links, so the
/// result is too high if several read from one GPU, which the best assignments avoid.
double foretold_rate(const Readings& readings, const Assignment& assignment,
                     const MachineCosts& costs);

struct BestAssignments {
  std::vector<Assignment> best;  ///< As many as requested, best first, all different.
  bool every_one = false;        ///< Whether all possible assignments were examined.
};
/// Ranked by `foretold_rate`: all assignments if there are at most 100 000, otherwise those that
/// hill climbing visits from 20 starts, which `seed` determines. Each GPU holds at most
/// `blocks_max` blocks.
BestAssignments best_assignments(const Readings& readings, std::size_t gpus, std::size_t blocks_max,
                                 const MachineCosts& costs, std::size_t wanted, std::uint64_t seed);

}  // namespace vma
