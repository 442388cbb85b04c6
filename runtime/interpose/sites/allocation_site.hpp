#pragma once

#include <string>

namespace vma::interpose {

/// Where the calling thread is, innermost frame first, separated by " < ": Python's frames, if this
/// thread holds the lock of its interpreter, and then those of machine code outside of this
/// library.
std::string allocation_site();

}  // namespace vma::interpose
