#pragma once

#include <string_view>

namespace vma {

/// What the program gets instead of a function of the driver that may use memory in a way that
/// nobody here knows: a jump to it, by `before_unknown_call`. Any thread; no lock, as the system's
/// loader may hold its own.
const void* jump_to(const void* function, std::string_view symbol) noexcept;

/// Called before each call of such a function, and if there are too many of them, before the
/// program gets it. The library that has these jumps defines it.
void before_unknown_call(std::string_view symbol) noexcept;

}  // namespace vma
