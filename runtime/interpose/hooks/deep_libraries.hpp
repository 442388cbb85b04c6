#pragma once

namespace vma::interpose {

/// Libraries that the program opens with RTLD_DEEPBIND find the symbols of their own dependencies
/// before those of a preloaded library: the system's `dlsym`, and the driver's calls. Lets those
/// that were opened since the last call find ours. The next `dlsym` is early enough, since nobody
/// can call into such a library without one, but for its constructors. Any thread.
void bind_deep_libraries() noexcept;

}  // namespace vma::interpose
