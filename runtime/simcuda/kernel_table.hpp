#pragma once

#include <vma/device.hpp>

#include <string_view>

namespace vma {

/// The entry of the kernel that stops a stream, which the simulator does in another way: a kernel
/// of its own cannot wait for a word.
constexpr std::string_view stopper_entry = "vmart_stop";

/// Adds the kernels of the shared objects in SIMCUDA_KERNELS (paths with colons between them), and
/// those that the program itself exports, to those of the runtime. Once, before `find_kernel`.
/// Throws: Refusal{SHARED_OBJECT_INIT_FAILED}, after a line on standard error that says why.
void load_kernel_libraries();

/// The kernel that runs in place of an entry, as a host function. Null if there is none.
const Kernel* find_kernel(std::string_view entry);

}  // namespace vma
