#pragma once

#include <vma/device.hpp>

#include <string_view>

namespace vma {

/// The entry of the kernel that stops a stream, which the simulator does in another way: a kernel
/// of its own cannot wait for a word.
constexpr std::string_view stopper_entry = "vmart_stop";

/// The kernel that runs in place of an entry, as a host function: those that the runtime loads, and
/// those of tests/support. Null for any other entry.
const Kernel* find_kernel(std::string_view entry);

}  // namespace vma
