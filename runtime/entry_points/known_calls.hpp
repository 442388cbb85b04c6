#pragma once

#include <string_view>

namespace vma {

/// What the program may do with memory of vmart by a call of the driver.
enum class CallKind {
  hooked,    ///< It has a row among the entry points.
  harmless,  ///< It neither enqueues work nor looks memory up.
  unknown,   ///< It may do either, and has no hook: it came with a newer driver, or is left out.
};

/// By the name of the symbol, or the base name that `cuGetProcAddress` is asked for. A name that
/// nobody has seen is unknown if it is of a family that uses memory, or a version of a hooked call.
/// Any thread; no lock.
CallKind kind_of_call(std::string_view symbol) noexcept;

/// The same for an address that has no row: whether the call may look up memory that it names. A
/// version of a call does what the call does.
bool may_look_memory_up(std::string_view symbol) noexcept;

/// Without its version, and whether its streams are those of threads.
std::string_view base_name(std::string_view symbol) noexcept;

}  // namespace vma
