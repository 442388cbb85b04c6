#pragma once

#include <vma/device.hpp>

#include <cstdint>

namespace vma {

/// (begin, pairs, passes, sum): adds every word of so many pairs of std::uint64_t to *sum, `passes`
/// times, at the speed of the memory. `begin` is aligned to 16 bytes.
const Kernel& read_kernel();
/// Enough blocks for any GPU to read at full speed, and few enough to start at once.
LaunchShape read_shape();
KernelArguments read_arguments(const void* begin, std::uint64_t bytes, std::uint64_t passes,
                               std::uint64_t* sum);

}  // namespace vma
