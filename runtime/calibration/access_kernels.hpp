#pragma once

#include <vma/device.hpp>

namespace vma {

/// Reads a range repeatedly: (const void* data, vectors of 16 bytes, passes, word that no sum
/// equals, sink). Any grid. The sink is a word that is hardly ever written.
const Kernel& access_read_kernel();

/// Follows a chain through memory, one load after the other: (const words* data, steps, sink). Each
/// word of the chain is the index of the next. One thread.
const Kernel& access_chase_kernel();

}  // namespace vma
