#pragma once

#include <vma/device.hpp>

namespace vma {

// The kernels of NVIDIA's samples of stream-ordered allocation. The last argument is the number of
// elements, an int.

/// (a, b, sum, count): sums of floats.
const Kernel& add_vectors_kernel();
/// (from, to, count): twice each int.
const Kernel& scale_kernel();
/// (from, to, count): the square of each float.
const Kernel& square_kernel();
/// (from, to, count): each float negated.
const Kernel& negate_kernel();

}  // namespace vma
