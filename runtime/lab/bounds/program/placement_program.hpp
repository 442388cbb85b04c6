#pragma once

#include "lab/bounds/placement_instance.hpp"
#include "lab/bounds/program/linear_program.hpp"

#include <cstddef>

namespace vma {

/// Makes a program of an instance, the least sum of which is what the instance can cost at least
/// with the capacities kept at the end of each block, in microseconds. Each chunk takes one way
/// through its `ChunkGraph`: a variable a step, and as much comes into each state as leaves it. At
/// the end of each block in which a place could be too small what lies there is no more than it
/// holds. What takes no such room is in the constant.
///
/// Variable cN_bBsS_bCsT: chunk N goes from state S at the end of block B to T at that of C;
/// without bBsS it begins. Row cN: it begins once; cN_bBsS: what comes into the state leaves it;
/// room_bB_pP.
struct PlacementProgram {
  std::size_t steps_max = 2'000'000;     ///< Variables.
  std::size_t work_max = 2'000'000'000;  ///< Chunks x their layers x the cube of the states.

  /// Throws: Error{invalid_argument} for more than that, and where a chunk finds no way at all.
  LinearProgram operator()(const PlacementInstance& instance) const;
};

}  // namespace vma
