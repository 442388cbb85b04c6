#pragma once

#include "support/sanitizer.hpp"

#include <cstdint>

namespace vma {

/// The seed of this run: VMART_SEED, else 1. What is chosen at random follows from it.
std::uint64_t run_seed();
/// VMART_LONG=1 asks for everything where a short run takes a sample.
bool long_run();
/// How many of `runs` random runs of one kind a test makes: a quarter under a sanitizer, which
/// takes ten times as long and watches the paths that they take, most of them the same ones.
inline int sampled(int runs) {
  return under_sanitizer && !long_run() ? (runs + 3) / 4 : runs;
}
/// The number that the variable of the environment holds, or `otherwise` where it is not set.
std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise);

}  // namespace vma
