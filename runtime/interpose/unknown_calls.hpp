#pragma once

#include <string_view>

namespace vma::interpose {

/// What the program gets instead of a function of the driver that has no hook and is not harmless:
/// a jump to it, before which this process stands aside and all memory stays where it lies. A
/// harmless one is returned as it is. Any thread; no lock, as the system's loader may hold its own.
const void* guard_of(const void* function, std::string_view symbol) noexcept;

}  // namespace vma::interpose
