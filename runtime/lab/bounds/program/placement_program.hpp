#pragma once

#include "lab/bounds/placement_instance.hpp"
#include "lab/bounds/program/linear_program.hpp"

#include <cstddef>

namespace vma {

/// Converts an instance to a program whose minimum is a lower bound of the instance's cost with the
/// capacities enforced at the end of each block, in microseconds. Each chunk takes one path through
/// its `ChunkGraph`: one variable per step, and the flow into each state equals the flow out of it.
/// At the end of each block in which a place could overflow, its contents are limited to its
/// capacity. Chunks that take no such room are in the constant.
///
/// Variable cN_bBsS_bCsT: chunk N goes from state S at the end of block B to T at that of C;
/// without bBsS it begins. Row cN: it begins once; cN_bBsS: flow into the state equals flow out;
/// room_bB_pP.
struct PlacementProgram {
  std::size_t steps_max = 2'000'000;     ///< Limit of variables.
  std::size_t work_max = 2'000'000'000;  ///< Chunks x their layers x the cube of the states.

  /// Throws: Error{invalid_argument} beyond these limits, and if a chunk has no path at all.
  LinearProgram operator()(const PlacementInstance& instance) const;
};

}  // namespace vma
