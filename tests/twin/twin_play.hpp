#pragma once

#include "twin/twin_plan.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace vma {

/// The results of a play.
struct TwinOutcome {
  std::uint64_t words_different = 0;
  std::uint64_t chunks_moved = 0;
  std::uint64_t chunks_live = 0;
  std::uint64_t moves_done = 0;
  std::uint64_t bytes_remapped = 0;                   ///< Moved to where a clean copy was.
  std::map<std::string, std::uint64_t> moves_failed;  ///< By kind of error.
  std::uint64_t gates = 0;
  std::map<std::string, std::uint64_t> given_up;  ///< Gates, by reason.
  std::uint64_t interleaving = 0;  ///< Of a stepped play: equal for equal orders of steps.
  /// What is wrong; empty if all is well.
  std::string problem;

  void operator+=(const TwinOutcome& other);
};

/// Writers that never pause add to an array and to its twin while the array moves. At the end both
/// are equal, everything launched has finished, and nothing is left behind.
TwinOutcome play(const TwinPlan& plan);

}  // namespace vma
