#pragma once

#include <cstdint>

namespace vma {

/// The seed of this run: VMART_SEED, else 1. What is chosen at random follows from it.
std::uint64_t run_seed();
/// VMART_LONG=1 asks for everything where a short run takes a sample.
bool long_run();
/// The number that the variable of the environment holds, or `otherwise` where it is not set.
std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise);

}  // namespace vma
