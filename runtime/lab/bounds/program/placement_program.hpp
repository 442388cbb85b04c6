#pragma once

#include "lab/bounds/placement_instance.hpp"
#include "lab/bounds/program/linear_program.hpp"

#include <cstddef>

namespace vma {

/// Converts an instance to a program. Its minimum is a lower bound for the instance's cost, in
/// microseconds, with the capacities enforced at the end of each block. Each chunk takes one path
/// through its `ChunkGraph`: there is one variable per step, and the flow into each state equals
/// the flow out of it. For each end of a block at which a place could overflow, a row limits the
/// bytes at that place to its capacity. Chunks that need no such room are part of the constant.
///
/// Variable cN_bBsS_bCsT: chunk N goes from state S at the end of block B to state T at the end of
/// block C; without bBsS it begins. Row cN: the chunk begins once. Row cN_bBsS: flow into the state
/// equals flow out of it. Row room_bB_pP: the capacity of place P.
struct PlacementProgram {
  std::size_t steps_max = 2'000'000;     ///< Limit for the number of variables.
  std::size_t work_max = 2'000'000'000;  ///< Chunks x layers x the cube of the number of states.

  /// Throws: Error{invalid_argument} beyond these limits, and if a chunk has no path.
  LinearProgram operator()(const PlacementInstance& instance) const;
};

}  // namespace vma
