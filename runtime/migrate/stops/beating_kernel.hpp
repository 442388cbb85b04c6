#pragma once

#include "driver/driver.hpp"

#include <cstdint>
#include <span>

namespace vma {

/// (beats, end, limit in ns): counts in `beats` until `end` is not zero; on a GPU, until the limit
/// at the latest.
const Kernel& beating_kernel();
/// Its machine code for GPUs that can run it.
std::span<const std::uint64_t> beating_image();

}  // namespace vma
