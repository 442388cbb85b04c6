#pragma once

#include "support/sanitizer.hpp"

#include <cstdint>

namespace vma {

/// The seed of this run: VMART_SEED, otherwise 1. All random choices depend on it.
std::uint64_t run_seed();
/// VMART_LONG=1 asks for all cases instead of a sample.
bool long_run();
/// How many of `runs` random runs of one kind a test makes: a quarter under a sanitizer, which
/// takes ten times as long and mostly sees the same paths.
inline int sampled(int runs) {
  return under_sanitizer && !long_run() ? (runs + 3) / 4 : runs;
}
/// Whether moves of the play with that seed suspend the program's work: as VMART_STOP says, or else
/// in one of two plays.
bool play_suspends(std::uint64_t seed);
/// The number in the environment variable, or `otherwise` if it is not set.
std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise);

}  // namespace vma
