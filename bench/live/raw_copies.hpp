#pragma once

#include <vma/runtime.hpp>

#include <cstdint>
#include <vector>

namespace vma {

/// What the links of a place carry: copies by copy engine from memory there to each of the
/// others, all at once, `bytes` in all. Returns GB/s, the median of several rounds, by the
/// machine's clock. Nothing is made, mapped or granted inside the measurement.
double raw_copy_gb_s(Runtime& runtime, Location from, const std::vector<Location>& targets,
                     std::uint64_t bytes);

}  // namespace vma
