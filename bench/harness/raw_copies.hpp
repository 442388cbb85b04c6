#pragma once

#include <vma/runtime.hpp>

#include <cstdint>
#include <vector>

namespace vma {

/// The capacity of a place's links: copies by copy engine from memory there to each of the other
/// places, all at once, `bytes` in total. Returns GB/s by the machine's clock, the median of
/// several rounds. Nothing is allocated, mapped or granted during the measurement.
double raw_copy_gb_s(Runtime& runtime, Place from, const std::vector<Place>& targets,
                     std::uint64_t bytes);

}  // namespace vma
