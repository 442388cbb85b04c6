#pragma once

#include <string_view>

namespace vma::interpose {

/// Whether a call that has no hook may enqueue work or look memory up: one of a driver that is
/// newer than this library, by a name that is not known, or a version of a hooked call.
bool may_use_memory(std::string_view symbol) noexcept;

/// What the program gets instead of such a function: a jump to it, before which this process stands
/// aside and all memory stays where it lies. Any other function is returned as it is. Any thread;
/// no lock, as the system's loader may hold its own.
const void* guard_of(const void* function, std::string_view symbol) noexcept;

}  // namespace vma::interpose
