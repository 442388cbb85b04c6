#pragma once

#include <cstdint>

namespace vma {

/// The first seed of this run: VMART_SEED, else 1.
std::uint64_t first_seed();
/// VMART_LONG=1 asks for all that a short run takes a sample of.
bool long_run();

}  // namespace vma
