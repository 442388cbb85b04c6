#pragma once

#include <cstddef>
#include <string>

namespace vma::interpose {

/// Where the calling thread is, innermost frame first, separated by " < ": Python's frames, if this
/// thread holds the lock of its interpreter, and then those of machine code outside of this
/// library. Empty for an allocation whose site nobody wants: smaller than `Settings::site_bytes`.
std::string allocation_site(std::size_t bytes);

}  // namespace vma::interpose
