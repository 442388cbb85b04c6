#pragma once

#include <vma/device.hpp>

namespace vma {

/// Reads a range repeatedly. Arguments: const void* data, number of 16-byte vectors, passes, a word
/// that no sum equals, sink. Any grid. Practically never writes the sink.
const Kernel& access_read_kernel();

/// Follows a chain through memory, one load after the other. Arguments: const words* data, steps,
/// sink. Each word of the chain is the index of the next one. One thread.
const Kernel& access_chase_kernel();

}  // namespace vma
